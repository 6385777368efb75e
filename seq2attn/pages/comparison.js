"use strict";
// The summary of a comparison: groups over their seeds, as `compare` prints them.

const fixed = value => value === null || value === undefined ? "" : value.toFixed(3);
const signed = value => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
const count = value => Math.round(value).toLocaleString("en");

function chooseMeasure() {
  return select("measure", COMPARED.measures, measure, chosen => { measure = chosen; drawComparison(); drawComparedLengths(); });
}

function drawComparison() {
  const groups = visible();
  const rows = groups.flatMap(group => group.measures[measure]);
  const ends = measure === "entropy" ? ["least", "most"] : ["worst", "best"];
  const byLength = rows.every(row => row.length !== null);
  const columns = {
    family: row => row.family,
    [byLength ? "length" : ""]: row => `${byLength ? row.length : COMPARED.measures[row.key]}${row.trained ? "" : " *"}`,
    mean: row => fixed(row.mean),
    sd: row => fixed(row.deviation),
    "95 % interval": row => row.low === null ? "" : `${fixed(row.low)} – ${fixed(row.high)}`,
    [`${ends[0]} (seed)`]: row => `${fixed(row.worst)} (${row.worst_seed})`,
    [`${ends[1]} (seed)`]: row => `${fixed(row.best)} (${row.best_seed})`,
    "difference, paired": row => row.difference ? `${signed(row.difference.mean)}${row.difference.low === null ? "" : ` [${signed(row.difference.low)}, ${signed(row.difference.high)}]`}` : "",
    published: row => fixed(row.published),
  };
  if (rows.every(row => row.family === "random")) delete columns.family;
  if (rows.every(row => row.published === null)) delete columns.published;
  if (rows.every(row => row.difference === null)) delete columns["difference, paired"];
  const head = element("tr", {}, ...Object.keys(columns).map(name => element("th", {class: "number"}, name)));
  const body = groups.flatMap(group => [
    element("tr", {class: "group"}, element("td", {colspan: Object.keys(columns).length},
      element("div", {}, element("strong", {}, runName(group)), element("span", {class: "about"}, aboutGroup(group))))),
    ...group.measures[measure].map(row => element("tr", {class: isClear(row.difference) ? "clear" : ""},
      ...Object.entries(columns).map(([name, cell]) => element("td", {class: `number ${name.split(",")[0]}`}, cell(row))))),
  ]);
  const missing = COMPARED.missing.length ? ` Not measured yet and left out: ${COMPARED.missing.join(", ")}.` : "";
  const worst = groups.flatMap(group => group.measures[measure].filter(row => row.worst_family).map(row =>
    ` ${group.name}: the worst family is ${row.family}, ${fixed(row.least)} at length ${row.length} with seed ${row.worst_seed}.`));
  const untrained = rows.some(row => !row.trained) ? " * never seen in training." : "";
  fill("summary",
    element("div", {class: "controls"}, chooseMeasure()),
    element("div", {class: "scroll"}, element("table", {class: "compared"}, element("thead", {}, head), element("tbody", {}, ...body))),
    element("p", {class: "note"}, `Mean over seeds, standard deviation, and Student's interval of the mean. Differences are taken seed by seed; those whose interval excludes 0 are bold.${untrained}${missing}${worst.join("")}`));
}

function isClear(difference) {
  return Boolean(difference) && difference.low !== null && (difference.low > 0 || difference.high < 0);
}

function aboutGroup(group) {
  const {trials, planned, parameters, loss, published_loss, tokens_per_second, word_by_word: words} = group.about;
  return [
    group.baseline === null ? "the baseline" : `against ${group.baseline}`,
    trials === planned ? `${trials} seed${trials === 1 ? "" : "s"}` : `${trials} of ${planned} seeds`,
    `${count(parameters)} parameters`,
    ...(loss === null ? [] : [`loss ${loss.toFixed(4)}${published_loss === null ? "" : ` (published ${published_loss.toFixed(4)})`}`]),
    ...(tokens_per_second === null ? [] : [`${count(tokens_per_second)} tokens/s`]),
    ...(words ? [`word by word: ${count(words.only_other)} better, ${count(words.only_one)} worse, p ${fixed(words.p_value)} (McNemar)`] : []),
  ].join(", ");
}

function drawComparedLengths() {
  const groups = visible().filter(group => group.measures[measure].length);
  if (groups.some(group => group.measures[measure].some(row => row.length === null)))
    return fill("lengths", element("div", {class: "controls"}, chooseMeasure()),
      element("p", {class: "note"}, "Error rates are of all words together; exact match is measured by length."));
  const chooser = chooseFamily(groups.flatMap(group => group.measures[measure]), drawComparedLengths);
  const rows = groups.map(group => group.measures[measure].filter(row => row.family === family));
  const series = groups.map((group, i) => ({name: group.name, colour: group.colour, dash: group.dash,
    points: rows[i].map(row => [row.length, row.mean, row.least, row.most])}));
  const trained = new Set(rows.flat().filter(row => row.trained).map(row => row.length));
  const shaded = [...new Set(rows.flat().map(row => row.length))].filter(length => !trained.has(length));
  const place = element("div", {});
  fill("lengths", element("div", {class: "controls"}, chooseMeasure(), ...chooser), place,
    element("p", {class: "note"}, `Mean over seeds; the band reaches from the lowest to the highest seed.${shaded.length ? " Grey: lengths never seen in training." : ""}`));
  drawChart(place, series, {share: measure !== "entropy", band: true, tall: true, around: true, shaded, x: "string length", y: COMPARED.measures[measure],
    label: `${COMPARED.measures[measure]} by string length`});
}
