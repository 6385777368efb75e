// A vector as rows of bars from a middle line: positive numbers upwards, negative ones downwards.

const BAR = 22;

function paintVector(canvas, values, look, room, numbers) {
  const largest = Math.max(1e-9, ...values.map(Math.abs));
  const narrowest = numbers ? 40 : 5;
  const rowsOf = Math.ceil(
    values.length / Math.max(1, Math.floor(room / narrowest))
  );
  const columns = Math.ceil(values.length / rowsOf); // rows of one length
  const width = Math.max(narrowest, Math.min(12, Math.floor(room / columns)));
  const height = BAR + (numbers ? 16 : 2);
  const pen = new CanvasPen(
    canvas,
    columns * width,
    Math.ceil(values.length / columns) * height
  );
  values.forEach((value, k) => {
    const x = (k % columns) * width;
    const y = Math.floor(k / columns) * height;
    const share = ((Math.abs(value) / largest) * BAR) / 2;
    const [top, colour] =
      value < 0 ? [0, look.negative] : [share, look.positive];
    pen.fill(x, y, width - 1, BAR, look.soft);
    pen.fill(x, y + BAR / 2 - top, width - 1, share, colour);
    if (numbers)
      pen.text(x + width / 2, y + BAR + 8, inVector(value), 11, look.text);
  });
}

function inVector(value) {
  return Math.abs(value) < 10
    ? value.toFixed(3).replace(/^(-?)0\./, "$1.")
    : short(value);
}
