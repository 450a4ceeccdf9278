// The table of runs: sorted and filtered here, so that a page of a thousand runs answers at once.

import { compact, duration, element, get, measured, number, poll } from "./common.js";

const COLUMNS = [
  ["task", "Task", (run) => run.task ?? "–"],
  ["library", "Library", (run) => run.library ?? "–"],
  ["num_processes", "World", (run) => run.num_processes ?? "–", "n"],
  ["status", "Status", status],
  ["iteration", "Iteration", iterations, "n"],
  ["mean_return", "Return", (run) => measured(run.mean_return), "n"],
  ["frames", "Frames", (run) => compact(run.frames), "n"],
  ["fps", "Frames/s", (run) => compact(run.fps), "n"],
  ["eta_s", "Left", (run) => (run.eta_s == null ? "" : duration(run.eta_s)), "n"],
  ["written_at", "Last sign", (run) => `${duration(Date.now() / 1000 - run.written_at)} ago`, "n"],
];
const table = document.getElementById("runs");
const [heading, body] = [table.tHead.rows[0], table.tBodies[0]];
const filter = document.getElementById("filter");
const sorts = document.getElementById("sort");
const bar = document.getElementById("compare");
const given = new URLSearchParams(location.search);
const view = { sort: given.get("sort") ?? "", down: given.get("down") === "1", status: given.get("status") ?? "" };
const chosen = new Set();
let runs = [];

function status(run) {
  const dot = element("span", { className: `status ${run.trouble && run.status === "running" ? "hangs" : run.status}` });
  dot.textContent = run.trouble && run.status === "running" ? "hangs" : run.status;
  dot.title = run.trouble;
  return dot;
}

function iterations(run) {
  const total = run.total_iterations;
  const text = total ? `${number(run.iteration ?? 0)} / ${number(total)}` : number(run.iteration);
  if (!total) return text;
  const bar = element("progress", { max: total, value: run.iteration ?? 0, ariaLabel: "Share of iterations done" });
  return element("span", {}, text, bar);
}

const words = (run) =>
  [run.name, run.task, run.library, run.status, `seed ${run.seed}`, run.trouble].join(" ").toLowerCase();

function shown() {
  const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = runs.filter(
    (run) => (!view.status || run.status === view.status) && wanted.every((word) => words(run).includes(word)),
  );
  if (!view.sort) return kept; // the newest first, as they come
  const value = (run) => run[view.sort];
  return kept.sort((a, b) => {
    const [x, y] = view.down ? [value(b), value(a)] : [value(a), value(b)];
    if (value(a) == null || value(b) == null) return (value(a) == null) - (value(b) == null);
    return typeof x === "string" ? x.localeCompare(y) : x - y;
  });
}

function line(run) {
  const box = element("input", { type: "checkbox", checked: chosen.has(run.name), ariaLabel: `Choose ${run.name}` });
  box.dataset.key = `box ${run.name}`;
  box.onchange = () => (box.checked ? chosen.add(run.name) : chosen.delete(run.name), showBar());
  const [, folder, name] = run.name.match(/^(.*?)([^/]*)$/);
  const link = element("a", { href: `/runs?run=${encodeURIComponent(run.name)}`, textContent: name });
  link.dataset.key = `link ${run.name}`;
  const place = element("span", { className: "folder", textContent: folder });
  const row = element("tr", {}, element("td", { className: "box" }, box), element("th", { scope: "row" }, link, place));
  for (const [key, title, show, kind = ""] of COLUMNS) {
    const cell = element("td", { className: `${kind} c-${key}` }, show(run));
    cell.dataset.title = title;
    row.append(cell);
  }
  if (run.trouble) {
    row.cells[1].append(element("span", { className: "trouble", textContent: run.trouble }));
  }
  return row;
}

function show() {
  const focused = document.activeElement?.dataset.key;
  const rows = shown();
  body.replaceChildren(...rows.map(line));
  if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  for (const cell of heading.querySelectorAll("[data-sort]")) {
    const order = cell.dataset.sort !== view.sort ? "none" : view.down ? "descending" : "ascending";
    cell.parentElement.ariaSort = order;
  }
  sorts.value = `${view.sort} ${view.down ? 1 : 0}`;
  const empty = document.getElementById("empty");
  empty.hidden = rows.length > 0;
  empty.textContent = runs.length ? "No run matches." : "There are no runs here yet. Start one; it appears by itself.";
  showStatuses();
  const state = Object.entries({ ...view, down: view.down ? "1" : "", filter: filter.value }).filter(([, value]) => value);
  history.replaceState(null, "", state.length ? `?${new URLSearchParams(state)}` : "/");
}

function showStatuses() {
  const counts = new Map([["", runs.length]]);
  for (const run of runs) counts.set(run.status, (counts.get(run.status) ?? 0) + 1);
  const chips = document.getElementById("statuses");
  const focused = chips.contains(document.activeElement) ? document.activeElement.dataset.status : null;
  chips.replaceChildren(
    ...[...counts].map(([name, count]) => {
      const chip = element("button", { className: "chip", ariaPressed: view.status === name }, name || "all", element("b", {}, String(count)));
      chip.dataset.status = name;
      chip.onclick = () => ((view.status = name), show());
      return chip;
    }),
  );
  if (focused !== null) chips.querySelector(`[data-status="${CSS.escape(focused)}"]`)?.focus();
}

function showBar() {
  bar.hidden = chosen.size === 0;
  bar.querySelector("span").textContent = `${chosen.size} run${chosen.size > 1 ? "s" : ""} chosen`;
  bar.querySelector(".primary").textContent = chosen.size > 1 ? "Compare" : "Look at it";
  bar.querySelectorAll("input").forEach((input) => input.remove());
  for (const name of chosen) bar.append(element("input", { type: "hidden", name: "run", value: name }));
}

function sortBy(name, down) {
  [view.sort, view.down] = [name, down];
  show();
}

heading.append(element("td", { className: "box" }), element("th", { scope: "col", textContent: "Run" }));
sorts.append(new Option("newest", " 0"));
for (const [key, title, , kind = ""] of COLUMNS) {
  const button = element("button", { textContent: title });
  button.dataset.sort = key;
  button.onclick = () => (view.sort === key && view.down ? sortBy("", false) : sortBy(key, view.sort === key));
  heading.append(element("th", { scope: "col", className: `${kind} c-${key}` }, button));
  for (const down of [0, 1]) sorts.append(new Option(`${title.toLowerCase()} ${down ? "↓" : "↑"}`, `${key} ${down}`));
}
sorts.onchange = () => sortBy(sorts.value.split(" ")[0], sorts.value.endsWith("1"));
filter.value = given.get("filter") ?? "";
filter.oninput = show;
document.getElementById("clear").onclick = () => (chosen.clear(), showBar(), show());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    filter.focus();
  } else if (event.key === "Escape" && document.activeElement === filter) {
    filter.value = "";
    show();
  }
});

let before = null;
poll(async () => {
  const text = await get("/api/list");
  if (text === before && Date.now() % 30000 > 3000) return; // times go by now and then
  before = text;
  runs = JSON.parse(text).rows;
  show();
}, 3);
