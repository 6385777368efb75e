"use strict";
// The controls of training, what its worker reports, and the two charts.

const RECENT = 0.9, LINES = [[], [6, 4]];  // how much an earlier batch counts; dashes of each model's curve
const training = {worker: null, playing: false, round: 0, step: 0, losses: [], right: [], times: []};

const tell = (kind, more = {}) => training.worker.postMessage({kind, rate: state.rate, seed: state.seed, mask: state.mask, until: state.until, round: training.round, ...more});

function prepareTraining() {
  for (const id of ["train", "train-help"]) by(id).hidden = false;
  by("train-rate").value = Math.log10(state.rate);
  by("train-seed").value = state.seed;
  by("intro").textContent = `${data.models.length > 1 ? "These models begin" : "This model begins"} untrained: press Train, and watch the answer become right.`;
  by("mask-name").textContent = "mask it, in training too";
  const source = `${by("engine").textContent}\nserve();`;
  training.worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
  training.worker.onmessage = ({data: message}) => learnt(message);
  training.worker.onerror = ({message}) => toast(`Training stopped: ${message}`);
  for (const [id, act] of [["train-play", () => setTraining(!training.playing)], ["train-step", () => { setTraining(false); tell("step"); }], ["train-reset", resetTraining]]) by(id).addEventListener("click", act);
  by("train-rate").addEventListener("input", () => {
    state.rate = Number((10 ** by("train-rate").value).toPrecision(2));
    showTraining();
    remember();
  });
  by("train-seed").addEventListener("change", () => {
    state.seed = Math.max(0, Math.floor(Number(by("train-seed").value) || 0));
    remember();
    resetTraining();
  });
  by("train-until").value = state.until || "";
  by("train-until").addEventListener("change", () => {
    state.until = Math.max(0, Math.floor(Number(by("train-until").value) || 0)) || null;
    tell(training.playing ? "run" : "pause");
  });
  clearCurves();
  showTraining();
  drawTraining();
  tell("start", {specs: data.models.map(({training, weights, snapshots, mask_padding}) => ({training, weights, snapshots, mask_padding}))});
  if (state.until) setTraining(true);  // a link to a moment of training
}

function clearCurves() { Object.assign(training, {step: 0, losses: data.models.map(() => []), right: data.models.map(() => new Map()), times: []}); }

function setTraining(on) {
  training.playing = on;
  tell(on ? "run" : "pause");
  showTraining();
}

function resetTraining() {
  training.playing = false;
  training.round += 1;  // reports of earlier rounds may still be on their way
  clearCurves();
  tell("reset");
  showTraining();
  drawTraining();
}

// A report of the worker: what it learnt since the last one, and the weights that the page shows from now on.
function learnt({round, step, news, weights}) {
  if (round !== training.round) { tell("seen"); return; }
  for (const {lengths, losses, right} of news) {
    losses.forEach((loss, k) => {
      training.losses[k].push(loss);
      lengths.forEach((length, row) => {
        const [good, all] = training.right[k].get(length) || [0, 0];
        training.right[k].set(length, [good * RECENT + right[k][row], all * RECENT + 1]);
      });
    });
  }
  training.step = step;
  if (step === state.until) training.playing = false;
  if (news.some(({losses}) => losses.some(loss => !Number.isFinite(loss)))) {
    training.playing = false;
    toast("The loss is not a number any more: Reset, and take a smaller learning rate.");
  }
  for (const view of views) {
    view.learnt = weights[view.number];
    view.load(0);
  }
  training.times = [...training.times.filter(([time]) => performance.now() - time < 5000), [performance.now(), step]];
  update();
  showTraining();
  drawTraining();
  requestAnimationFrame(() => setTimeout(() => tell("seen")));
}

function showTraining() {
  const [[from, first] = [0, 0], [to, last] = [0, 0]] = [training.times[0], training.times.at(-1)], speed = training.playing && last > first ? ` · ${((last - first) / (to - from) * 1000).toPrecision(2)} a second` : "";
  const share = warmed(data.models[0].training, training.step), counted = `${training.step.toLocaleString("en")} batch${training.step === 1 ? "" : "es"}`;
  put(by("train-play"), "textContent", training.playing ? "❚❚ Pause" : "▶ Train");
  put(by("train-now"), "textContent", training.step ? `after ${counted}${speed}` : "untrained");
  put(by("train-rate-value"), "textContent", `${share < 1 ? `${(state.rate * share).toPrecision(2)} → ` : ""}${state.rate.toPrecision(2)}`);
}

function drawTraining() {
  if (!training.worker) return;
  const [curve, bars] = by("train").querySelectorAll("canvas"), room = curve.parentNode.clientWidth, height = 84, left = 26;
  const chance = Math.log(data.models[0].target.tokens.length), most = 1.1 * Math.max(chance, ...training.losses.map(([first]) => first || 0)), steps = Math.max(50, training.step);
  const pen = new CanvasPen(curve, room, height), y = loss => 8 + (height - 24) * (1 - Math.min(1, loss / most));
  const mark = (on, value, width, text) => {
    on.line(left, y(value), width, y(value), look.line, 1);
    on.text(left - 4, y(value), text, 10, look.quiet, "end");
  };
  mark(pen, 0, room, "0");
  mark(pen, chance, room, chance.toFixed(1));
  pen.text(room, y(chance) - 7, "a guess", 10, look.quiet, "end");
  pen.text(room, height - 6, `batch ${steps}`, 10, look.quiet, "end");
  const colours_ = [look.positive, look.negative];
  training.losses.forEach((losses, k) => {
    const every = Math.max(1, Math.floor(losses.length / room));
    pen.context.setLineDash(LINES[k]);
    pen.context.strokeStyle = colours_[k];
    pen.context.lineWidth = 2;
    pen.context.beginPath();
    for (let at = 0; at < losses.length; at += every) pen.context.lineTo(left + (room - left) * at / steps, y(losses[at]));
    pen.context.stroke();
    pen.context.setLineDash([]);
  });
  const names = data.models.map((model, k) => `${data.models.length > 1 ? `${k ? "┅" : "━"} ${model.name} ` : ""}${training.losses[k].length ? training.losses[k].at(-1).toFixed(3) : ""}`);
  put(by("train-loss"), "textContent", names.join("  "));
  curve.setAttribute("aria-label", `loss, after ${training.step} batches; of a guess ${chance.toFixed(1)}: ${names.join(", ")}`);
  const [shortest, longest] = data.models[0].trained, count = longest - shortest + 1, wide = bars.parentNode.clientWidth, each = (wide - left) / count, board = new CanvasPen(bars, wide, height), said = [];
  mark(board, 0, wide, "0");
  mark(board, most, wide, "1");
  for (let length = shortest; length <= longest; length++) {
    const at = left + (length - shortest) * each, size = each * 0.8 / data.models.length;
    if (each > 14 || length % 5 === 0) board.text(at + each / 2, height - 6, String(length), 10, look.quiet);
    training.right.forEach((found, k) => {
      const [good, all] = found.get(length) || [0, 1], share = good / all, top = y(share * most), x = at + each * 0.1 + k * size;
      if (k) board.frame(x + 1.5, top, Math.max(1, size - 3), y(0) - top, colours_[k], 2);
      else board.fill(x, top, Math.max(1, size - 1), y(0) - top, colours_[k]);
      said.push(`length ${length}: ${share.toFixed(2)}`);
    });
  }
  bars.setAttribute("aria-label", `share of strings that are right, ${said.join(", ")}`);
}
