// The page: a choice of policies, keys and touches that command them, and time that passes.

import { openPlayer } from "./player.js";
import { Scene } from "./scene.js";

const MOST_BEHIND = 0.1; // seconds of the simulation that are made up for at most
const KEYS = {
  KeyW: [0, 1], ArrowUp: [0, 1],
  KeyS: [0, -1], ArrowDown: [0, -1],
  KeyQ: [1, 1], KeyE: [1, -1],
  KeyA: [2, 1], ArrowLeft: [2, 1],
  KeyD: [2, -1], ArrowRight: [2, -1],
}; // which number of a velocity command, and its sign
const RANGES = ["lin_vel_x", "lin_vel_y", "ang_vel_z"];

const find = (id) => document.getElementById(id);
const scene = new Scene(find("canvas"));
const held = new Set();
let player = null;
let isPaused = false;
let isSteered = false; // until a key is pressed, the robot does what it was exported with

/** Return the name of the velocity command, if the policy has one. */
function steering() {
  return Object.entries(player.cfg.commands).find(
    ([, command]) => command.ranges && RANGES.every((name) => name in command.ranges),
  )?.[0];
}

function command() {
  const name = steering();
  if (!name || !isSteered) return;
  const { ranges } = player.cfg.commands[name];
  player.commands[name] = RANGES.map((range, i) => {
    const signs = [...held].map((key) => KEYS[key]).filter((key) => key?.[0] === i);
    const sign = Math.sign(signs.reduce((sum, key) => sum + key[1], 0));
    return sign > 0 ? ranges[range][1] : sign < 0 ? ranges[range][0] : 0;
  });
}

async function choose(policy) {
  find("message").textContent = `Loading ${policy.task} …`;
  player = await openPlayer(new URL(`./built/policies/${policy.folder}`, import.meta.url).href);
  isSteered = false;
  scene.show(player);
  find("message").textContent = "";
  find("push").hidden = !player.isFree;
  find("keys").hidden = find("pad").hidden = !steering();
  find("about").textContent = `${policy.description} ${policy.library}, ${policy.frames} frames.`;
  location.hash = policy.folder;
}

/** Let as much time pass in the simulation as in the world, and draw. */
async function run() {
  let before = performance.now();
  let due = 0;
  let current = null;
  for (;;) {
    const now = await new Promise(requestAnimationFrame);
    if (current !== player) {
      current?.close(); // only here, where nothing of it is under way
      current = player;
      due = 0;
    }
    due = Math.min(due + (now - before) / 1000, MOST_BEHIND);
    before = now;
    if (!current || isPaused) continue;
    for (; due >= current.cfg.step_dt; due -= current.cfg.step_dt) {
      command();
      const action = await current.act();
      if (current !== player) break;
      current.step(action);
    }
    if (current === player) {
      scene.draw();
      find("speed").textContent = speed();
    }
  }
}

function speed() {
  if (!player.isFree) return "";
  return `${Math.hypot(...player.rootState().velocity.slice(0, 2)).toFixed(1)} m/s`;
}

const ACTIONS = {
  KeyR: () => player?.reset(),
  Space: () => player?.push(0, 1.5 * (Math.random() < 0.5 ? -1 : 1)),
  KeyP: () => (isPaused = !isPaused),
};

function press(key) {
  if (key in KEYS) {
    held.add(key);
    isSteered = true;
  }
}

window.addEventListener("keydown", (event) => {
  if (event.target.tagName === "SELECT" || event.repeat || event.ctrlKey || event.metaKey) return;
  if (event.code in KEYS || event.code in ACTIONS) event.preventDefault();
  press(event.code);
  ACTIONS[event.code]?.();
});
window.addEventListener("keyup", (event) => held.delete(event.code));
window.addEventListener("blur", () => held.clear());
for (const button of document.querySelectorAll("button[data-key]")) {
  const key = button.dataset.key;
  button.addEventListener("pointerdown", () => (press(key), ACTIONS[key]?.()));
  for (const end of ["pointerup", "pointerleave", "pointercancel"]) {
    button.addEventListener(end, () => held.delete(key));
  }
}
new ResizeObserver(() => scene.resize(window.innerWidth, window.innerHeight)).observe(document.body);
scene.resize(window.innerWidth, window.innerHeight);

try {
  const answer = await fetch(new URL("./built/policies.json", import.meta.url));
  if (!answer.ok) throw new Error("There is nothing to play: run scripts/documentation/browser.py.");
  const policies = await answer.json();
  const select = find("policies");
  select.append(...policies.map((policy, i) => new Option(policy.task, i)));
  const show = () =>
    choose(policies[select.value]).catch((error) => (find("message").textContent = error.message));
  select.addEventListener("change", () => (select.blur(), show()));
  const wanted = policies.findIndex((policy) => `#${policy.folder}` === location.hash);
  select.value = Math.max(0, wanted);
  await show();
  window.envlab = { get player() { return player; } }; // for tests, and the curious
  await run();
} catch (error) {
  find("message").textContent = error.message;
}
