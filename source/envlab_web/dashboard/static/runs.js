// The page of a run, or of several: curves that follow their files, and what else there is of one.

import { compact, duration, element, get, measured, poll, say } from "./common.js";

// Okabe and Ito's colours, which the colour-blind tell apart; those first that the ground sets off.
const ON_LIGHT = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"];
const ON_DARK = ["#56B4E9", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#F0E442"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const FIRST = ["mean_return", "mean_episode_length", "fps", "learning_rate"];
const query = new URLSearchParams(location.search);
const names = query.getAll("run");
const asked = names.map((name) => `run=${encodeURIComponent(name)}`).join("&");
const charts = new Map(); // metric: {box, plot, data}
const dark = matchMedia("(prefers-color-scheme: dark)");
const picker = document.getElementById("metric");
const group = document.getElementById("group");
const HEIGHT = 230;
let xName = "frames";

const TITLES = { mean_return: "Return", mean_episode_length: "Episode length (steps)", fps: "Frames/s", learning_rate: "Learning rate" };
const title = (metric) => TITLES[metric] ?? metric.replace(/^mean_/, "").replace(/^(losses|episode)\./, "").replaceAll("_", " ");
const colour = (index) => (dark.matches ? ON_DARK : ON_LIGHT)[index % ON_LIGHT.length];
const dash = (index) => DASHES[Math.floor(index / ON_LIGHT.length) % DASHES.length];

function options(metric, lines, width) {
  const css = getComputedStyle(document.documentElement);
  const axis = { stroke: css.getPropertyValue("--muted"), grid: { stroke: css.getPropertyValue("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const onX = xName === "frames" ? compact : duration;
  const series = [{ label: xName === "frames" ? "frames" : "time", value: (_, x) => (x == null ? "–" : onX(x)) }];
  const bands = [];
  lines.forEach((line, index) => {
    const bound = { stroke: "transparent", points: { show: false }, spanGaps: true };
    series.push({ label: lines.length > 1 ? line.label : title(metric), stroke: colour(index), dash: dash(index), width: 2, spanGaps: true, points: { show: line.x.length < 2 }, value: (_, y) => measured(y) }, bound, bound);
    bands.push({ series: [3 * index + 3, 3 * index + 2], fill: `${colour(index)}33` }); // upper, lower
  });
  return {
    width, height: HEIGHT, series, bands,
    scales: { x: { time: false } },
    axes: [{ ...axis, size: 30, values: (_, ticks) => ticks.map(onX) }, { ...axis, size: 56, values: (_, ticks) => ticks.map(measured) }],
    cursor: { sync: { key: "curves" }, drag: { x: true, y: false } },
  };
}

function draw(metric) {
  const chart = charts.get(metric);
  const lines = chart.data.lines;
  const tables = lines.map((line) => {
    const { x, y, low, high } = line;
    return [x, y, low ?? x.map(() => null), high ?? x.map(() => null)];
  });
  chart.plot?.destroy();
  chart.plot = null;
  const place = chart.box.lastElementChild;
  if (!lines.some((line) => line.x.length)) {
    place.textContent = "No value yet.";
    return;
  }
  place.textContent = "";
  chart.plot = new uPlot(options(metric, lines, place.clientWidth), uPlot.join(tables), place);
  const last = lines.map((line) => `${line.label}: ${measured(line.y.at(-1))}`).join("; ");
  place.setAttribute("aria-label", `${title(metric)}. ${last}`);
}

function addChart(metric) {
  const place = element("div", { className: "plot", role: "img", textContent: "Loading …" });
  const box = element("figure", {}, element("figcaption", { textContent: title(metric), title: metric }), place);
  document.getElementById("charts").append(box);
  charts.set(metric, { box, plot: null, data: null, text: "" });
  sizes.observe(place);
}

async function lookAtCurves() {
  for (const [metric, chart] of [...charts]) {
    const grouped = group?.checked ?? true;
    const wanted = `metric=${encodeURIComponent(metric)}&x=${xName}&group=${grouped ? 1 : 0}`;
    const text = await get(`/api/curves?${asked}&${wanted}`);
    if (text === chart.text) continue;
    chart.text = text;
    chart.data = JSON.parse(text);
    draw(metric);
    if (metric === FIRST[0]) explain(chart.data);
  }
}

function explain({ lines, metrics, notes }) {
  document.getElementById("notes").textContent = notes.join(" ");
  document.getElementById("legend").replaceChildren(
    ...(lines.length > 1 ? lines : []).map((line, index) => {
      const mark = element("i");
      mark.style.borderTop = `3px ${dash(index).length ? "dashed" : "solid"} ${colour(index)}`;
      return element("span", {}, mark, line.label);
    }),
  );
  const offered = metrics.filter((metric) => !charts.has(metric));
  if (picker.length !== offered.length + 1)
    picker.replaceChildren(new Option("a metric …", ""), ...offered.map((metric) => new Option(metric, metric)));
}

// Replaces only the sections that have changed, so that a video plays on and a log stays scrolled.
async function lookAtDetails() {
  const made = element("template", { innerHTML: await get(`/api/details?${asked}`) }).content;
  for (const section of made.querySelectorAll("section")) {
    const id = section.id === "summary-new" ? "summary" : section.id;
    const old = document.getElementById(id);
    const html = section.innerHTML;
    if (old?.known === html) continue;
    if (old === null) {
      document.getElementById("details").append(section);
      section.known = html;
    } else {
      const open = [...old.querySelectorAll("details")].map((one) => [one.querySelector("strong").textContent, one.open]);
      old.replaceChildren(...section.childNodes);
      old.hidden = section.hidden;
      old.known = html;
      for (const one of old.querySelectorAll("details")) {
        const before = open.find(([name]) => name === one.querySelector("strong").textContent);
        if (before) one.open = before[1];
      }
    }
    document.querySelectorAll(`#${id} pre`).forEach((log) => (log.scrollTop = log.scrollHeight));
  }
}

async function act(action) {
  if (!confirm(action === "stop" ? "Stop this run? It saves a checkpoint first." : "Resume this run from its newest checkpoint?")) return;
  const token = document.querySelector("meta[name=envlab-token]").content;
  const answer = await fetch(`/control/${action}?${asked}`, { method: "POST", headers: { "X-Envlab-Token": token } });
  const words = await answer.text();
  (document.getElementById("said") ?? document.getElementById("summary").before(element("p", { id: "said", role: "status", className: "alert calm" })));
  document.getElementById("said").textContent = words;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.act) act(button.dataset.act);
  if (button?.dataset.copy) {
    await navigator.clipboard.writeText(button.dataset.copy).catch(() => say("The browser does not let this page copy."));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }
  if (button?.dataset.x) {
    xName = button.dataset.x;
    document.querySelectorAll("[data-x]").forEach((one) => (one.ariaPressed = one === button));
    again();
  }
});

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries)
    for (const [, chart] of charts)
      if (chart.box.lastElementChild === target) chart.plot?.setSize({ width: target.clientWidth, height: HEIGHT });
});
dark.onchange = () => charts.forEach((chart, metric) => chart.data && draw(metric));
FIRST.forEach(addChart);
const again = poll(lookAtCurves, 3);
if (names.length === 1) poll(lookAtDetails, 2);
if (group) group.onchange = again;
picker.onchange = () => {
  if (picker.value) addChart(picker.value);
  again();
  picker.querySelector(`option:checked`)?.remove();
};
