"use strict";
// Drawing: maps and vectors, on a canvas or as SVG with the same calls.

// What the page was made with: {models, colours, signs}.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["card", "text", "quiet", "line", "soft", "held", "good", "bad", "positive", "negative"].map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function heat(weight) {
  const {colours} = data, at = weight * (colours.length - 1), low = Math.min(Math.floor(at), colours.length - 2);
  return `rgb(${colours[low].map((part, i) => Math.round(part + (at - low) * (colours[low + 1][i] - part))).join()})`;
}

const HEATS = Array.from({length: 256}, (_, level) => heat(level / 255));

// How a symbol is shown: what cannot be seen gets a sign.
function shownSymbol(symbol) {
  const known = Object.hasOwn(data.signs, symbol) ? data.signs[symbol] : symbol.replace(/^(?=\p{M})/u, "◌");
  return Array.from(known, letter => {
    const code = letter.codePointAt(0);
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    if (code === 127) return "␡";
    if (/\p{Cf}|\p{Zl}|\p{Zp}|\p{Cc}|\p{Cn}|\p{Co}|\p{Cs}/u.test(letter)) return code.toString(16).toUpperCase().padStart(4, "0");
    return letter === " " || /\p{Zs}/u.test(letter) ? "␣" : letter;
  }).join("");
}

class CanvasPen {
  constructor(canvas, width, height) {
    const scale = window.devicePixelRatio || 1, size = [Math.ceil(width * scale), Math.ceil(height * scale)];
    this.context = canvas.getContext("2d");
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  fill(x, y, width, height, colour) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  frame(x, y, width, height, colour, thick) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = thick;
    this.context.strokeRect(x, y, width, height);
  }

  line(x, y, toX, toY, colour, thick) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = thick;
    this.context.beginPath();
    this.context.moveTo(x, y);
    this.context.lineTo(toX, toY);
    this.context.stroke();
  }

  // x, y: where the text's middle height is; align: start, middle or end; upright: turned by a quarter.
  text(x, y, text, size, colour, align = "middle", upright = false) {
    const {context} = this;
    context.save();
    context.translate(x, y);
    if (upright) context.rotate(-Math.PI / 2);
    context.font = `${size}px ${MONO}`;
    context.fillStyle = colour;
    context.textBaseline = "middle";
    context.textAlign = align === "middle" ? "center" : align;
    context.fillText(text, 0, 0);
    context.restore();
  }
}

class SvgPen {
  constructor(width, height) {
    this.root = this.add("svg", {xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`});
  }

  add(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) if (key !== "xmlns") made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (this.root) this.root.append(made);
    return made;
  }

  fill(x, y, width, height, fill) { this.add("rect", {x, y, width, height, fill}); }
  frame(x, y, width, height, stroke, thick) { this.add("rect", {x, y, width, height, fill: "none", stroke, "stroke-width": thick}); }
  line(x1, y1, x2, y2, stroke, thick) { this.add("line", {x1, y1, x2, y2, stroke, "stroke-width": thick}); }

  text(x, y, text, size, fill, align = "middle", upright = false) {
    const turn = upright ? {transform: `rotate(-90 ${x} ${y})`} : {};
    this.add("text", {x, y, fill, "font-size": size, "font-family": MONO, "text-anchor": align, "dominant-baseline": "central", ...turn}, text);
  }
}

// Where things lie in a map whose cells fit into `room` pixels.
function mapLayout(columns, rows, room, numbers, most = 76) {
  const width = symbols => Math.max(1, ...symbols.map(symbol => Array.from(symbol.normalize("NFD").replace(/\p{M}/gu, "")).length));
  const longest = width(columns), left = 28 + 14 * width(rows);
  const least = numbers ? 38 : 14;
  const cell = Math.max(least, Math.floor(Math.min(most, (room - left - 4) / Math.max(1, columns.length))));
  const size = Math.max(9, Math.min(26, Math.round(cell * 0.5)));
  const upright = longest * size * 0.62 > cell;
  const top = upright ? 14 + longest * size * 0.62 : size + 12;
  return {left, top, cell, size, upright, width: left + columns.length * cell + 3, height: top + rows.length * cell + 3};
}

// map: {columns, rows (symbols as shown), weights: [row], chosen: [t, j] or null, held: Set "t,j", banned(t, j), masked(j), outside(t, j) of the window, centres: [positions] of it, different: Map t -> sign, shown(t)}
function paintMap(pen, map, layout, look, numbers) {
  const {left, top, cell, size, upright} = layout;
  map.columns.forEach((symbol, j) => upright
    ? pen.text(left + (j + 0.5) * cell, top - 7, symbol, size, look.text, "start", true)
    : pen.text(left + (j + 0.5) * cell, top - 5 - size / 2, symbol, size, look.text));
  const signColour = {"✓": look.good, "✗": look.bad, "≠": look.held};
  map.rows.forEach((symbol, t) => {
    const sign = map.different.get(t) || "";
    pen.text(left - 8, top + (t + 0.5) * cell, sign + symbol, size, signColour[sign] || look.text, "end");
  });
  map.weights.forEach((row, t) => {
    if (!map.shown(t)) return;
    for (let j = 0; j < map.columns.length; j++) {
      const x = left + j * cell, y = top + t * cell, weight = row[j];
      const outside = map.outside(t, j);
      pen.fill(x, y, cell, cell, outside ? look.soft : HEATS[Math.max(0, Math.min(255, Math.round(255 * weight)))]);
      for (const [from, to] of outside ? [[0, cell / 2], [0, cell], [cell / 2, cell]] : []) pen.line(x + from, y + to, x + to, y + from, look.line, 1.5);
      if (numbers && !outside) pen.text(x + cell / 2, y + cell / 2, weight.toFixed(2).replace(/^0/, ""), Math.min(19, cell * 0.32), weight > 0.55 ? "#111" : "#fff");
      if (map.banned(t, j)) {
        pen.line(x + cell * 0.25, y + cell * 0.25, x + cell * 0.75, y + cell * 0.75, look.held, 2);
        pen.line(x + cell * 0.75, y + cell * 0.25, x + cell * 0.25, y + cell * 0.75, look.held, 2);
      }
      if (map.masked(j)) pen.line(x + cell * 0.3, y + cell * 0.7, x + cell * 0.7, y + cell * 0.3, "#9aa6b1", 2);
      if (map.held.has(`${t},${j}`)) pen.frame(x + 2, y + 2, cell - 4, cell - 4, look.held, 3);
    }
    for (const centre of map.centres[t].filter(one => one > -0.5 && one < map.columns.length - 0.5)) {
      const x = left + (centre + 0.5) * cell, y = top + t * cell;
      for (const [colour, thick] of [["#000", 6], ["#fff", 3]]) for (const end of [0, 0.78]) pen.line(x, y + end * cell, x, y + (end + 0.22) * cell, colour, thick);
    }
  });
  if (map.chosen) {
    const [t, j] = map.chosen;
    if (t < map.rows.length) {
      pen.frame(left - 1, top + t * cell - 1, map.columns.length * cell + 2, cell + 2, look.text, 2);
      if (j < map.columns.length) pen.frame(left + j * cell + 1, top + t * cell + 1, cell - 2, cell - 2, map.outside(t, j) ? look.text : "#fff", 2);
    }
  }
}

// A vector as rows of bars from a middle line: positive numbers upwards, negative ones downwards.
function paintVector(canvas, values, look, room, numbers) {
  const most = Math.max(1e-9, ...values.map(Math.abs)), fit = Math.max(1, Math.floor(room / (numbers ? 40 : 5)));
  const columns = Math.ceil(values.length / Math.ceil(values.length / fit));  // rows of one length
  const width = Math.max(numbers ? 40 : 5, Math.min(12, Math.floor(room / columns))), bar = 22, height = bar + (numbers ? 16 : 2);
  const pen = new CanvasPen(canvas, columns * width, Math.ceil(values.length / columns) * height);
  values.forEach((value, k) => {
    const x = (k % columns) * width, y = Math.floor(k / columns) * height, share = Math.abs(value) / most * bar / 2;
    pen.fill(x, y, width - 1, bar, look.soft);
    pen.fill(x, value < 0 ? y + bar / 2 : y + bar / 2 - share, width - 1, share, value < 0 ? look.negative : look.positive);
    if (numbers) pen.text(x + width / 2, y + bar + 8, Math.abs(value) < 10 ? value.toFixed(3).replace(/^(-?)0\./, "$1.") : short(value), 11, look.text);
  });
}
