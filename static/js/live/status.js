// Numbers outside charts that follow the stream: [data-kpi] shows a KPI, [data-count-state] how many agents are in a state,
// [data-agent-live] one agent's state. Elements are looked up anew each time, since parts of the page are replaced.

import { withUnit } from "../lib/format.js";
import { onFrames } from "./page.js";

/** @typedef {import("./ring.js").Frame} Frame */

const TONES = { live: "ok", stale: "warn", unreachable: "bad" };

/** @param {Element} element @param {string} text */
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {string} selector @returns {HTMLElement[]} */
function all(selector) {
  return /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);
}

/** @param {string} topic @param {Frame} frame */
function show(topic, frame) {
  for (const element of all("[data-kpi]")) {
    if (element.dataset.topic !== topic) continue;
    const values = (element.dataset.kpi ?? "").split("+").map((name) => frame.kpis[name] ?? null);
    const known = values.filter((value) => value !== null);
    put(element, known.length ? withUnit(known.reduce((sum, value) => sum + value, 0), element.dataset.unit ?? "") : "–");
  }
  for (const element of all("[data-count-state]")) {
    if (element.dataset.topic !== topic) continue;
    put(element, String(frame.agents.filter((agent) => agent.state === element.dataset.countState).length));
  }
  for (const element of all("[data-agent-live]")) {
    const agent = frame.agents.find((candidate) => candidate.id === element.dataset.agentLive);
    if (!agent) continue;
    put(element, agent.state);
    element.dataset.tone = TONES[/** @type {keyof typeof TONES} */ (agent.state)] ?? "idle";
  }
}

/** Keep what the page shows of the newest frame up to date, and have its other parts fetched anew when something happened. */
export function bindStatus() {
  /** @type {Map<string, string>} */
  const seen = new Map();
  /** @type {Map<string, Frame>} */
  const newest = new Map();
  onFrames((topic, ring) => {
    const frame = ring.latest;
    if (!frame) return;
    newest.set(topic, frame);
    show(topic, frame);
    const marks = ring.marks();
    const key = JSON.stringify([frame.agents.map((agent) => [agent.id, agent.state]), marks[marks.length - 1] ?? null]);
    const before = seen.get(topic);
    seen.set(topic, key);
    if (before !== undefined && before !== key) document.body.dispatchEvent(new CustomEvent("fabric:changed"));
  });
  document.addEventListener("htmx:afterSwap", () => newest.forEach((frame, topic) => show(topic, frame)));
}
