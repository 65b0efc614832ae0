// From a ring of frames to the lines, segments and columns that a chart shows. Pure but for reading colours.

/**
 * @typedef {import("./ring.js").Ring} Ring
 * @typedef {import("./ring.js").Frame} Frame
 * @typedef {import("./chart.js").ChartSpec} ChartSpec
 * @typedef {import("./chart.js").SeriesSpec} SeriesSpec
 * @typedef {{id: string, name: string, color: string, axis: string, unit: string, dash?: string, x: number[], y: (number | null)[]}} Line
 */

const GAP_AFTER_S = 3; // two missing frames: the line is broken, not drawn across
const AGENT_COLORS = 8;
export const MAX_AGENT_LINES = 8;

/** @param {Frame} frame @param {SeriesSpec} series @param {string | null} agentId */
function valueOf(frame, series, agentId) {
  const kpis = agentId === null ? frame.kpis : frame.agents?.find((agent) => agent.id === agentId)?.kpis;
  const value = kpis?.[series.kpi];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** @param {Frame[]} frames @param {(frame: Frame) => number | null} read */
function pointsOf(frames, read) {
  const x = [];
  const y = [];
  for (let index = 0; index < frames.length; index += 1) {
    const frame = frames[index];
    const before = frames[index - 1];
    if (before && frame.at_s - before.at_s > GAP_AFTER_S) {
      x.push((before.at_s + frame.at_s) / 2);
      y.push(null);
    }
    x.push(frame.at_s);
    y.push(read(frame));
  }
  return { x, y };
}

/**
 * The agents whose lines are drawn where there are too many to tell apart: those with the highest newest values, by name.
 * @param {ChartSpec} spec @param {Ring} ring @returns {[string, string][]}
 */
export function chosenAgents(spec, ring) {
  const all = [...ring.agents()];
  const series = spec.series.filter((one) => one.per_agent);
  if (all.length <= MAX_AGENT_LINES || !series.length || !ring.latest) return all;
  const frame = ring.latest;
  const weight = new Map(all.map(([id]) => [id, Math.max(...series.map((one) => valueOf(frame, one, id) ?? -1))]));
  const kept = new Set([...weight].sort((a, b) => b[1] - a[1]).slice(0, MAX_AGENT_LINES).map(([id]) => id));
  return all.filter(([id]) => kept.has(id));
}

/** The lines of a chart: one for a series of the topic, one for each of `agents` of a series by agent. @param {ChartSpec} spec @param {Ring} ring @param {[string, string][]} agents @returns {Line[]} */
export function linesOf(spec, ring, agents = [...ring.agents()]) {
  return spec.series.flatMap((series) => {
    const make = (/** @type {string | null} */ agentId, /** @type {string} */ name, /** @type {string} */ color) => ({
      id: `${series.kpi} ${agentId ?? ""}`,
      name,
      color,
      axis: series.axis ?? "y",
      unit: series.unit,
      dash: series.dash,
      ...pointsOf(ring.frames, (frame) => valueOf(frame, series, agentId)),
    });
    if (!series.per_agent) return [make(null, series.name, series.color ?? "--series-1")];
    return agents.map(([id, name], index) => make(id, series.name ? `${name} ${series.name}` : name, `--series-${(index % AGENT_COLORS) + 1}`));
  });
}

/** Stretches without a gap, as [from, to) indexes; lines of one chart share their x. @param {Line[]} lines @returns {[number, number][]} */
export function segmentsOf(lines) {
  const length = lines[0]?.x.length ?? 0;
  const segments = /** @type {[number, number][]} */ ([]);
  let from = -1;
  for (let index = 0; index <= length; index += 1) {
    const known = index < length && lines.some((line) => line.y[index] !== null);
    if (known && from < 0) from = index;
    if (!known && from >= 0) {
      segments.push([from, index]);
      from = -1;
    }
  }
  return segments;
}

/** A chart's numbers as columns, for the table and the CSV file. @param {ChartSpec} spec @param {Ring} ring */
export function columnsOf(spec, ring) {
  const agents = [...ring.agents()];
  const columns = spec.series.flatMap((series) =>
    series.per_agent
      ? agents.map(([id, name]) => ({ series, agentId: /** @type {string | null} */ (id), name: series.name ? `${name} ${series.name}` : name }))
      : [{ series, agentId: /** @type {string | null} */ (null), name: series.name }],
  );
  return {
    names: columns.map((column) => column.name),
    rows: ring.frames.map((frame) => ({
      at_s: frame.at_s,
      epoch: frame.epoch,
      seq: frame.seq,
      values: columns.map((column) => valueOf(frame, column.series, column.agentId)),
      units: columns.map((column) => column.series.unit),
    })),
  };
}

/** @type {Map<string, string>} */
const colors = new Map();

/** Forget resolved colours: the theme changed. */
export function forgetColors() {
  colors.clear();
}

/** A token of the style sheet as a colour that Plotly understands. @param {HTMLElement} near @param {string} token @param {number} [alpha] */
export function rgb(near, token, alpha = 1) {
  let value = colors.get(token);
  if (value === undefined) {
    const probe = document.createElement("span");
    probe.hidden = true;
    probe.style.color = `var(${token})`; // by script, which style-src does not touch
    near.ownerDocument.body.append(probe);
    value = getComputedStyle(probe).color;
    probe.remove();
    colors.set(token, value);
  }
  const parts = value.match(/[\d.]+/g) ?? ["0", "0", "0"];
  return `rgba(${parts.slice(0, 3).join(",")},${alpha})`;
}
