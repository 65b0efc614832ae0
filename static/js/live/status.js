// Numbers outside charts that follow the stream: [data-kpi] shows a KPI, [data-count-state] how many agents are in a state,
// [data-agent-live] one agent's state.

import { withUnit } from "../lib/format.js";
import { onFrames } from "./page.js";

/** @param {Element} element @param {string} text */
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Keep what the page shows of the newest frame up to date. */
export function bindStatus() {
  const kpis = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-kpi]")]);
  const counts = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-count-state]")]);
  const agents = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-agent-live]")]);
  if (!kpis.length && !counts.length && !agents.length) return;
  onFrames((topic, ring) => {
    const frame = ring.latest;
    if (!frame) return;
    for (const element of kpis) {
      if (element.dataset.topic !== topic) continue;
      const values = (element.dataset.kpi ?? "").split("+").map((name) => frame.kpis[name] ?? null);
      const known = values.filter((value) => value !== null);
      put(element, known.length ? withUnit(known.reduce((sum, value) => sum + value, 0), element.dataset.unit ?? "") : "–");
    }
    for (const element of counts) {
      if (element.dataset.topic !== topic) continue;
      put(element, String(frame.agents.filter((agent) => agent.state === element.dataset.countState).length));
    }
    for (const element of agents) {
      const agent = frame.agents.find((candidate) => candidate.id === element.dataset.agentLive);
      if (!agent) continue;
      put(element, agent.state);
      element.dataset.tone = { live: "ok", stale: "warn", unreachable: "bad" }[agent.state] ?? "idle";
    }
  });
}
