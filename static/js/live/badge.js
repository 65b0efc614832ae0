// Is what the chart shows the present? One judgement, used by every badge of a page.

/**
 * @typedef {{state: "live" | "stale" | "reconnecting", text: string, detail: string, short?: string}} Verdict
 * @typedef {{linked: boolean, polling: boolean, signedOut: boolean, everLinked: boolean, frameAgeMs: number | null, staleAfterMs: number, error?: string, agents: {name: string, state: string}[]}} Evidence
 */

/**
 * Judge a stream. The order is what the reader can do about it: no connection, no frames, silent agents.
 * @param {Evidence} evidence @returns {Verdict}
 */
export function judge(evidence) {
  const { agents } = evidence;
  if (evidence.signedOut) return { state: "stale", text: "signed out", detail: "The session has ended. Reload the page to sign in." };
  if (!evidence.linked && !evidence.polling) {
    const text = evidence.everLinked ? "reconnecting" : "connecting";
    return { state: "reconnecting", text, detail: "No connection to the server; it is tried again by itself." };
  }
  if (evidence.frameAgeMs === null) return { state: "stale", text: "no data", detail: evidence.error || "Connected, but no frame has come yet. Is the scraper running?" };
  if (evidence.frameAgeMs > evidence.staleAfterMs) {
    // The growing age stands in the title: in the text it would make screen readers speak each second.
    const age = Math.round(evidence.frameAgeMs / 1000);
    return { state: "stale", text: "stale", detail: evidence.error || `The last frame is ${age} s old. Is the scraper running?` };
  }
  const silent = agents.filter((agent) => agent.state !== "live");
  if (silent.length) {
    const word = silent.some((agent) => agent.state === "unreachable") ? "unreachable" : "stale";
    const text = agents.length === 1 ? `stale: agent ${word}` : `stale: ${silent.length} of ${agents.length} agents`;
    return { state: "stale", text, short: "stale", detail: silent.slice(0, 8).map((agent) => `${agent.name}: ${agent.state}`).join(", ") };
  }
  return { state: "live", text: evidence.polling && !evidence.linked ? "live (polling)" : "live", detail: "" };
}

/** Show a verdict: colour by state, the word itself, the detail as title. @param {HTMLElement} element @param {Verdict} verdict */
export function show(element, verdict) {
  const text = "brief" in element.dataset ? (verdict.short ?? verdict.text) : verdict.text;
  if (element.dataset.state !== verdict.state) element.dataset.state = verdict.state;
  if (element.textContent !== text) element.textContent = text;
  if (element.title !== verdict.detail) element.title = verdict.detail;
}
