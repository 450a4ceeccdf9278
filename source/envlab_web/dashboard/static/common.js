// What both pages need: polling that survives a server that is gone, and words for numbers.

const live = document.getElementById("live");
const tags = new Map(); // address: [ETag, what it answered]

export async function get(address) {
  const [tag, known] = tags.get(address) ?? [];
  let answer;
  try {
    answer = await fetch(address, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
  } catch {
    throw new Error("The dashboard does not answer: it has ended, or the connection is gone.");
  }
  if (answer.status === 304) return known;
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  tags.set(address, [answer.headers.get("ETag"), text]);
  return text;
}

// Calls `look` now and every so many seconds while the page is to be seen; says what goes wrong.
export function poll(look, seconds) {
  let timer;
  async function turn() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        await look();
        say("");
      } catch (error) {
        say(error.message);
      }
    }
    timer = setTimeout(turn, 1000 * seconds);
  }
  document.addEventListener("visibilitychange", () => document.hidden || turn());
  turn();
  return turn;
}

export function say(text) {
  if (live.textContent !== text) live.textContent = text;
}

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const compactly = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const exactly = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

export const number = (value) => (value == null ? "–" : value.toLocaleString("en"));
export const compact = (value) => (value == null ? "–" : compactly.format(value));
export const measured = (value) =>
  value == null ? "–" : Math.abs(value) >= 1e4 ? compact(value) : exactly.format(value);

export function duration(seconds) {
  if (seconds == null) return "–";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  return `${Math.max(0, Math.round(seconds))} s`;
}
