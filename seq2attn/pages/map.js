"use strict";
// Heat maps of attention as inline SVG: rows are output symbols, columns source symbols.

const CIVIDIS = [[0, 34, 78], [26, 56, 111], [67, 78, 108], [97, 101, 111], [125, 124, 120], [155, 148, 118], [188, 174, 108], [222, 201, 88], [254, 232, 56]];
const SIGNS = {"<eos>": "⏎", "<pad>": "∅", "<sos>": "⊢", " ": "␣"};

function heat(weight) {
  const at = Math.max(0, Math.min(1, weight)) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return `rgb(${CIVIDIS[low].map((part, i) => Math.round(part + (at - low) * (CIVIDIS[low + 1][i] - part))).join(",")})`;
}

function sign(symbol) { return Object.hasOwn(SIGNS, symbol) ? SIGNS[symbol] : symbol.replace(/^(?=\p{M})/u, "◌"); }

// Pixels by which the longest label exceeds two characters.
function excess(symbols) {
  const longest = Math.max(...symbols.map(symbol => sign(symbol).normalize("NFD").replace(/\p{M}/gu, "").length));
  return 8 * Math.max(0, longest - 2);
}

const CELL = 24, TITLE = 18, LARGEST = 2.2; // units of a cell and of an axis label; pixels of a unit at most

// Where a map's cells are, in units.
function mapBox(map) {
  const left = TITLE + 26 + excess(map.output_symbols), upright = excess(map.source_symbols), top = TITLE + 26 + upright;
  return {left, upright, top, width: left + map.source_symbols.length * CELL + 4, height: top + map.output_symbols.length * CELL + 4};
}

// In a row of maps all cells have one size: as large as the row, the window's height and LARGEST allow.
function mapWidth(map) {
  const {width, height} = mapBox(map);
  return `flex: ${width} 1 ${width * 1.1}px; max-width: min(${width * LARGEST}px, max(280px, 85vh * ${(width / height).toFixed(3)}))`;
}

// A weight in two digits, as it fits a cell.
function digits(weight) {
  return weight < 0.005 ? "0" : weight >= 0.995 ? "1" : weight.toFixed(2).slice(1);
}

// axes: what the columns and the rows are; describe: the title and rows of a cell's tip, by its row and column.
function drawMap(map, withIdeal, withNumbers, {label = `attention for ${map.source}`, axes = ["source", "output"],
    describe = (t, j) => describeWeight(map, t, j)} = {}) {
  const cell = CELL, columns = map.source_symbols.length, rows = map.output_symbols.length;
  const {left, upright, top, width, height} = mapBox(map);
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  svg.append(element("text", {class: "axis", x: left + columns * cell / 2, y: 14, "text-anchor": "middle"}, axes[0]));
  svg.append(element("text", {class: "axis", transform: `translate(12, ${top + rows * cell / 2}) rotate(-90)`, "text-anchor": "middle"}, axes[1]));
  map.source_symbols.forEach((symbol, j) =>
    svg.append(element("text", upright
      ? {transform: `translate(${left + (j + 0.5) * cell + 4}, ${top - 8}) rotate(-90)`}
      : {x: left + (j + 0.5) * cell, y: top - 8, "text-anchor": "middle"}, sign(symbol))));
  map.output_symbols.forEach((symbol, t) =>
    svg.append(element("text", {x: left - 8, y: top + (t + 0.5) * cell + 4, "text-anchor": "end"}, sign(symbol))));
  map.weights.forEach((row, t) => row.forEach((weight, j) =>
    svg.append(element("rect", {x: left + j * cell, y: top + t * cell, width: cell + 0.4, height: cell + 0.4, fill: heat(weight), class: "cell"}))));
  if (withNumbers) {
    map.weights.forEach((row, t) => row.forEach((weight, j) => svg.append(element("text", {class: weight > 0.5 ? "digits bright" : "digits",
      x: left + (j + 0.5) * cell, y: top + (t + 0.5) * cell + 3, "text-anchor": "middle"}, digits(weight)))));
  }
  if (withIdeal) {
    map.ideal.slice(0, rows).forEach((j, t) =>
      svg.append(element("rect", {class: "ideal", x: left + j * cell + 1.5, y: top + t * cell + 1.5, width: cell - 3, height: cell - 3})));
  }
  const here = element("rect", {class: "here", width: cell, height: cell, visibility: "hidden"});
  svg.append(here);
  svg.addEventListener("pointerleave", () => { here.setAttribute("visibility", "hidden"); tip.hide(); });
  svg.addEventListener("pointermove", event => {
    const bounds = svg.getBoundingClientRect();
    const j = Math.floor(((event.clientX - bounds.left) / bounds.width * width - left) / cell);
    const t = Math.floor(((event.clientY - bounds.top) / bounds.height * height - top) / cell);
    if (j < 0 || t < 0 || j >= columns || t >= rows) { here.setAttribute("visibility", "hidden"); tip.hide(); return; }
    here.setAttribute("x", left + j * cell);
    here.setAttribute("y", top + t * cell);
    here.setAttribute("visibility", "visible");
    tip.show(event, ...describe(t, j));
  });
  return svg;
}

function describeWeight(map, t, j) {
  const rows = [["", "weight", map.weights[t][j].toFixed(3)]];
  if (t < map.ideal.length) rows.push(["", "ideal", `${sign(map.source_symbols[map.ideal[t]])} (${map.ideal[t] + 1}): ${map.weights[t][map.ideal[t]].toFixed(3)}`]);
  return [`output ${sign(map.output_symbols[t])} (${t + 1}), source ${sign(map.source_symbols[j])} (${j + 1})`, rows];
}

function ramp() {
  const stops = CIVIDIS.map(([r, g, b]) => `rgb(${r},${g},${b})`).join(",");
  return element("span", {class: "ramp"}, "0", element("i", {style: `background:linear-gradient(90deg,${stops})`}), "1");
}
