"use strict";
// Line charts as inline SVG. A series is {name, colour, dash, points: [[x, y] or [x, y, low, high], ...]}; y may be null.
// Low and high are drawn as a bar or, with options.band, as a band. If lines may coincide (options.share), those drawn first
// are wider, so that all are visible.

const DASHES = {"-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3"};

function element(name, attributes, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "circle", "text", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}

function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (value !== 0 && size < 0.001) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

const tip = {
  show(event, title, rows) {
    const box = document.getElementById("tip");
    box.replaceChildren(element("b", {}, title), ...rows.map(([colour, name, value]) =>
      element("div", {class: "row"},
        ...(colour ? [element("span", {class: "dot", style: `background:${colour}`})] : []),
        element("span", {}, name), element("span", {}, value))));
    box.hidden = false;
    const {width, height} = box.getBoundingClientRect();
    const left = event.clientX + 16 + width < innerWidth ? event.clientX + 16 : event.clientX - 16 - width;
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - height - 8))}px`;
  },
  hide() { document.getElementById("tip").hidden = true; },
};

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}

function decades(low, high) {
  // logarithms of the powers of ten in between; if they are few, of 1, 2, 5, 10, ...
  const powers = [];
  for (let n = Math.floor(low); n <= high; n++) powers.push(n);
  const inside = n => n >= low - 1e-9 && n <= high + 1e-9;
  const tens = powers.filter(inside);
  if (tens.length > 2) return tens.filter((_, i) => i % Math.ceil(tens.length / 6) === 0);
  return powers.flatMap(n => [n, n + Math.log10(2), n + Math.log10(5)]).filter(inside);
}

function drawChart(place, series, options) {
  let drawn = 0;
  const draw = () => { drawn = place.clientWidth; place.replaceChildren(...chartParts(place, series, options)); };
  draw();
  new ResizeObserver(() => { if (place.clientWidth !== drawn) requestAnimationFrame(draw); }).observe(place);
}

function chartParts(place, series, options) {
  const width = Math.max(240, place.clientWidth || 320), height = Math.min(options.tall ? 340 : 250, width * 0.72);
  const box = {left: 62, right: 12, top: 8, bottom: 38};
  const usable = p => p[1] !== null && (!options.log || p[1] > 0);
  const all = series.flatMap(one => one.points.filter(usable));
  const aside = place => options.around ? (place - (series.length - 1) / 2) * Math.min(0.12, 0.5 / series.length) : 0;
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label});
  if (!all.length) return [svg];
  const scaled = y => options.log ? Math.log10(y) : y;
  const xs = all.map(p => p[0]), ys = all.flatMap(p => p.slice(1).map(scaled)).filter(Number.isFinite);
  let [x0, x1] = [options.fromZero ? 0 : Math.min(...xs), Math.max(...xs)];
  if (options.around) { x0 -= 0.6; x1 += 0.6; }
  if (x0 === x1) { x0 -= 1; x1 += 1; }
  let [y0, y1] = options.share ? [0, 1] : [Math.min(...ys), Math.max(...ys)];
  if (!options.log && !options.share) y0 = Math.min(0, y0);
  if (y0 === y1) { y0 -= 1; y1 += 1; }
  if (!options.share) y1 += 0.04 * (y1 - y0);
  const X = x => box.left + (x - x0) / (x1 - x0) * (width - box.left - box.right);
  const Y = y => height - box.bottom - (scaled(y) - y0) / (y1 - y0) * (height - box.top - box.bottom);
  for (const x of options.shaded || []) {
    svg.append(element("rect", {class: "shade", x: X(x - 0.5), width: X(x + 0.5) - X(x - 0.5), y: box.top, height: height - box.top - box.bottom}));
  }
  for (const tick of options.log ? decades(y0, y1) : ticks(y0, y1, 5)) {
    const y = options.log ? 10 ** tick : tick;
    svg.append(element("line", {class: "grid", x1: box.left, x2: width - box.right, y1: Y(y), y2: Y(y)}));
    svg.append(element("text", {x: box.left - 6, y: Y(y) + 4, "text-anchor": "end"}, shown(y)));
  }
  for (const tick of ticks(x0, x1, width / (options.around ? 50 : 80))) {
    if (options.around && !Number.isInteger(tick)) continue;
    svg.append(element("text", {x: X(tick), y: height - box.bottom + 16, "text-anchor": "middle"}, shown(tick)));
  }
  const across = (box.left + width - box.right) / 2, down = (box.top + height - box.bottom) / 2;
  svg.append(element("text", {class: "axis", x: across, y: height - 4, "text-anchor": "middle"}, options.x));
  svg.append(element("text", {class: "axis", transform: `translate(12, ${down}) rotate(-90)`, "text-anchor": "middle"}, options.y));
  const path = points => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  const lowest = 10 ** y0;
  series.forEach((one, place) => {
    const points = one.points.filter(usable);
    const wide = options.share ? Math.min(1.1, 5 / series.length) * (series.length - 1 - place) : 0;
    const at = x => X(x + aside(place));
    const ends = points.filter(p => p.length > 2).map(([x, , low, high]) => [at(x), Y(options.log ? Math.max(low, lowest) : low), Y(high)]);
    if (options.band) {
      const outline = path([...ends.map(([x, , high]) => [x, high]), ...ends.map(([x, low]) => [x, low]).reverse()]);
      if (outline) svg.append(element("path", {d: `${outline}Z`, fill: one.colour, opacity: 0.16}));
    } else {
      for (const [x, low, high] of ends) svg.append(element("line", {x1: x, x2: x, y1: low, y2: high, stroke: one.colour, "stroke-width": 1.2}));
    }
    svg.append(element("path", {class: "line", d: path(points.map(p => [at(p[0]), Y(p[1])])), fill: "none", stroke: one.colour,
      "stroke-width": (1.6 + wide).toFixed(2), "stroke-linejoin": "round", "stroke-dasharray": DASHES[one.dash] ?? ""}));
    if (points.length <= 40) {
      for (const p of points) svg.append(element("circle", {cx: at(p[0]), cy: Y(p[1]), r: 2.4 + wide / 2, fill: one.colour}));
    }
  });
  addCursor(svg, series, {X, Y, x0, x1, box, width, height, usable, options});
  return [svg];
}

function addCursor(svg, series, at) {
  const cursor = element("g", {});
  svg.append(cursor);
  svg.addEventListener("pointerleave", () => { cursor.replaceChildren(); tip.hide(); });
  svg.addEventListener("pointermove", event => {
    const bounds = svg.getBoundingClientRect();
    const inside = (event.clientX - bounds.left) / bounds.width * at.width;
    const wanted = at.x0 + (inside - at.box.left) / (at.width - at.box.left - at.box.right) * (at.x1 - at.x0);
    const nearest = points => points.reduce((a, b) => Math.abs(b[0] - wanted) < Math.abs(a[0] - wanted) ? b : a);
    const found = series.map(one => [one, one.points.filter(at.usable)]).filter(([, p]) => p.length).map(([one, p]) => [one, nearest(p)]);
    if (!found.length) return;
    const x = nearest(found.map(([, p]) => p))[0];
    const near = found.filter(([, p]) => Math.abs(at.X(p[0]) - at.X(x)) < 12);
    cursor.replaceChildren(element("line", {class: "cursor", x1: at.X(x), x2: at.X(x), y1: at.box.top, y2: at.height - at.box.bottom}),
      ...near.map(([one, p]) => element("circle", {cx: at.X(p[0]), cy: at.Y(p[1]), r: 4, fill: one.colour})));
    tip.show(event, `${at.options.x} ${shown(x)}`, near.map(([one, p]) =>
      [one.colour, one.name, p.length > 2 && p[2] !== p[3] ? `${shown(p[1])} [${shown(p[2])}, ${shown(p[3])}]` : shown(p[1])]));
  });
}
