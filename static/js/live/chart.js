// One chart: draws a ring with Plotly.react, keeps its legend, table and CSV. Knows nothing of sockets.

import { byteTicks, withUnit } from "../lib/format.js";
import { clock, local } from "../lib/time.js";
import { MAX_AGENT_LINES, chosenAgents, columnsOf, linesOf, rgb, segmentsOf } from "./lines.js";

/**
 * @typedef {import("./ring.js").Ring} Ring
 * @typedef {{kpi: string, name: string, color?: string, axis?: "y" | "y2", unit: string, per_agent?: boolean, dash?: string, name_suffix?: string}} SeriesSpec
 * @typedef {{title?: string, unit: string, max?: number}} AxisSpec
 * @typedef {{name: string, title: string, unit: string, kind: "line" | "stack", series: SeriesSpec[], axes: Record<string, AxisSpec>, empty: string}} ChartSpec
 */

const MIN_DRAW_INTERVAL_MS = 950; // a frame a second, with room for jitter: never more than one drawing a second
const WINDOW_S = 300;
const LEAST_WINDOW_S = 60;
const TABLE_ROWS = 60;
const MARKS_SHOWN = 12;
const LABEL_PX = 165;
const CHOOSE_EVERY_MS = 30_000;
const CONFIG = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  scrollZoom: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"],
};

export class Chart {
  /**
   * @param {HTMLElement} element the card, with [data-plot], [data-legend], [data-table], [data-csv] inside
   * @param {ChartSpec} spec @param {{zone: string, plotly: any}} options
   */
  constructor(element, spec, options) {
    this.element = element;
    this.spec = spec;
    this.zone = options.zone;
    this.plotly = options.plotly;
    this.plot = /** @type {HTMLElement} */ (element.querySelector("[data-plot]"));
    this.legend = /** @type {HTMLElement} */ (element.querySelector("[data-legend]"));
    this.table = /** @type {HTMLDetailsElement | null} */ (element.querySelector("[data-table]"));
    this.drawnAt = -Infinity;
    this.frames = 0;
    this.legendKey = "";
    /** @type {[string, string][]} */
    this.chosen = [];
    this.chosenAt = -Infinity;
    this.left = 0;
    this.dirty = false;
    /** @type {Ring | null} */
    this.ring = null;
    this.table?.addEventListener("toggle", () => this.fillTable());
    element.querySelector("[data-csv]")?.addEventListener("click", () => this.download());
  }

  /** Remember that the ring has changed; the page's scheduler draws. @param {Ring} ring */
  offer(ring) {
    this.ring = ring;
    this.dirty = true;
  }

  /** Whether there is something new and the last drawing is long enough ago. @param {number} now */
  isDue(now) {
    return this.dirty && now - this.drawnAt >= MIN_DRAW_INTERVAL_MS;
  }

  /** Draw what the ring holds. @param {number} now */
  draw(now) {
    const ring = this.ring;
    if (!ring) return;
    this.dirty = false;
    this.drawnAt = now;
    const lines = linesOf(this.spec, ring, this.agents(ring, now));
    const known = lines.some((line) => line.y.some((value) => value !== null));
    this.plot.toggleAttribute("data-empty", !known);
    if (!known) this.plot.setAttribute("data-empty", ring.latest ? this.spec.empty : "Waiting for the first frame…");
    this.plotly.react(this.plot, this.traces(lines), this.layout(lines, ring), CONFIG);
    this.fillLegend(lines);
    this.fillTable();
    if (ring.latest) {
      this.frames += 1;
      this.element.dataset.frames = String(this.frames);
    }
  }

  /** Whose lines are drawn. Looked at anew only now and then, so that lines do not change places each second. @param {Ring} ring @param {number} now */
  agents(ring, now) {
    const known = ring.agents();
    if (known.size <= MAX_AGENT_LINES || now - this.chosenAt > CHOOSE_EVERY_MS || this.chosen.some(([id]) => !known.has(id))) {
      this.chosen = chosenAgents(this.spec, ring);
      this.chosenAt = now;
    }
    this.left = this.spec.series.some((series) => series.per_agent) ? known.size - this.chosen.length : 0;
    return this.chosen;
  }

  /** Draw again although nothing came: the theme changed. */
  redraw() {
    if (this.ring) this.draw(performance.now());
  }

  /** @param {import("./lines.js").Line[]} lines */
  traces(lines) {
    if (this.spec.kind !== "stack") return lines.map((line) => this.trace(line, line.x, line.y, {}));
    // Plotly fills a stacked area across a gap as if it were zero: each stretch between gaps is a stack of its own.
    return segmentsOf(lines).flatMap(([from, to], group) =>
      lines.map((line) =>
        this.trace(line, line.x.slice(from, to), line.y.slice(from, to), {
          stackgroup: `part${group}`,
          fillcolor: rgb(this.plot, line.color, 0.55),
          line: { color: rgb(this.plot, line.color), width: 1, shape: "linear" },
        }),
      ),
    );
  }

  /** @param {import("./lines.js").Line} line @param {number[]} x @param {(number | null)[]} y @param {object} more */
  trace(line, x, y, more) {
    return {
      type: "scatter",
      mode: "lines",
      name: line.name,
      x: x.map((at) => local(at, this.zone)),
      y,
      yaxis: line.axis,
      connectgaps: false,
      line: { color: rgb(this.plot, line.color), width: 1.75, dash: line.dash ?? "solid" },
      customdata: y.map((value) => withUnit(value, line.unit)),
      hovertemplate: "%{customdata}",
      ...more,
    };
  }

  /** @param {import("./lines.js").Line[]} lines @param {Ring} ring */
  layout(lines, ring) {
    const text = rgb(this.plot, "--text-muted");
    const grid = rgb(this.plot, "--grid");
    const latest = ring.latest?.at_s ?? Date.now() / 1000;
    const first = ring.frames[0]?.at_s ?? latest;
    const from = Math.max(latest - WINDOW_S, Math.min(first, latest - LEAST_WINDOW_S));
    const layout = {
      uirevision: "live",
      height: this.plot.clientHeight,
      margin: { l: 48, r: this.spec.axes.y2 ? 48 : 8, t: 14, b: 22 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(this.plot).fontFamily, size: 11, color: text },
      showlegend: false,
      hovermode: "x unified",
      hoverlabel: { bgcolor: rgb(this.plot, "--surface"), bordercolor: rgb(this.plot, "--border"), font: { color: rgb(this.plot, "--text"), size: 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: text, activecolor: rgb(this.plot, "--accent") },
      xaxis: {
        type: "date",
        range: [local(from, this.zone), local(latest, this.zone)],
        tickformat: "%H:%M:%S",
        hoverformat: "%H:%M:%S",
        nticks: this.plot.clientWidth > 600 ? 8 : 4,
        gridcolor: grid,
        linecolor: grid,
        zeroline: false,
        fixedrange: false,
      },
      .../** @type {object} */ (this.marks(ring, from, latest)),
    };
    for (const [name, axis] of Object.entries(this.spec.axes)) {
      /** @type {any} */ (layout)[name === "y2" ? "yaxis2" : "yaxis"] = this.axis(name, axis, lines, grid);
    }
    return layout;
  }

  /** @param {string} name @param {AxisSpec} axis @param {import("./lines.js").Line[]} lines @param {string} grid */
  axis(name, axis, lines, grid) {
    const highest = Math.max(...lines.filter((line) => line.axis === name).flatMap((line) => line.y.map((value) => value ?? 0)), 0);
    const top = axis.max ?? niceTop(highest, axis.unit);
    const second = name === "y2";
    return {
      range: [0, top],
      fixedrange: true,
      gridcolor: second ? "rgba(0,0,0,0)" : grid,
      zeroline: false,
      ...(second ? { overlaying: "y", side: "right" } : {}),
      ...tickStyle(axis.unit, top),
    };
  }

  /** Marks as vertical lines; those that stand close together share one label. @param {Ring} ring @param {number} from @param {number} to */
  marks(ring, from, to) {
    const color = rgb(this.plot, "--mark");
    const marks = ring.marks().filter((mark) => mark.at_s >= from && mark.at_s <= to).slice(-MARKS_SHOWN);
    const labelS = (to - from) * Math.min(1, LABEL_PX / Math.max(1, this.plot.clientWidth));
    return {
      shapes: marks.map((mark) => ({
        type: "line", xref: "x", yref: "paper", y0: 0, y1: 1,
        x0: local(mark.at_s, this.zone), x1: local(mark.at_s, this.zone),
        line: { color, width: 1, dash: "dot" },
      })),
      annotations: clusters(marks, labelS, to).map((cluster) => ({
        x: local(cluster[0].at_s, this.zone), xref: "x", yref: "paper", y: 1, yanchor: "bottom",
        xanchor: to - cluster[0].at_s < labelS ? "right" : "left",
        text: shortened(cluster[0].label) + (cluster.length > 1 ? ` +${cluster.length - 1}` : ""),
        hovertext: cluster.map((mark) => `${clock(mark.at_s, this.zone)} ${mark.label}`).join("<br>"),
        showarrow: false, font: { size: 10, color }, captureevents: true,
      })),
    };
  }

  /** The legend carries the newest values: it is what a reader without the picture needs. @param {import("./lines.js").Line[]} lines */
  fillLegend(lines) {
    const key = [this.left, ...lines.map((line) => `${line.id}${line.name}`)].join("\n");
    if (key !== this.legendKey) {
      this.legendKey = key;
      this.legend.replaceChildren(...lines.map((line) => legendItem(line)));
      if (this.left) {
        const more = document.createElement("li");
        more.className = "muted";
        more.textContent = `highest ${this.chosen.length} agents; ${this.left} more in table and CSV`;
        this.legend.append(more);
      }
    }
    this.legend.querySelectorAll("output").forEach((output, index) => {
      const line = lines[index];
      const text = withUnit(line.y[line.y.length - 1], line.unit);
      if (output.textContent !== text) output.textContent = text;
    });
  }

  /** The last frames as a table, newest first; only while it is open. */
  fillTable() {
    const box = this.table?.querySelector(".table-scroll");
    if (!this.table?.open || !box || !this.ring) return;
    const { names, rows } = columnsOf(this.spec, this.ring);
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const name of ["Time", ...names]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      if (name !== "Time") cell.className = "number";
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of rows.slice(-TABLE_ROWS).reverse()) {
      const line = body.insertRow();
      line.insertCell().textContent = clock(row.at_s, this.zone);
      row.values.forEach((value, index) => {
        const cell = line.insertCell();
        cell.className = "number";
        cell.textContent = withUnit(value, row.units[index]);
      });
    }
    const { scrollTop } = box;
    box.replaceChildren(table);
    box.scrollTop = scrollTop;
  }

  /** Everything the ring holds of this chart, as a file in base units. */
  download() {
    if (!this.ring) return;
    const { names, rows } = columnsOf(this.spec, this.ring);
    const quoted = (/** @type {string} */ text) => `"${(/^[=+\-@]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
    const lines = [["time_utc", "unix_s", "epoch", "seq", ...names.map(quoted)].join(",")];
    for (const row of rows) {
      lines.push([new Date(row.at_s * 1000).toISOString(), row.at_s, row.epoch, row.seq, ...row.values.map((value) => value ?? "")].join(","));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
    link.download = `${this.spec.name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}

/** Neighbours whose labels would run into each other, in order of time. Near the end labels stand to the left of their line. @param {import("./ring.js").Mark[]} marks @param {number} widthS @param {number} to */
function clusters(marks, widthS, to) {
  const found = /** @type {import("./ring.js").Mark[][]} */ ([]);
  for (const mark of marks) {
    const last = found[found.length - 1];
    const room = to - mark.at_s < widthS ? 2 * widthS : widthS;
    if (last && mark.at_s - last[0].at_s < room) last.push(mark);
    else found.push([mark]);
  }
  return found;
}

/** @param {string} label */
function shortened(label) {
  return label.length > 26 ? `${label.slice(0, 25)}…` : label;
}

/** A round end of the axis above the highest value: the scale then stands still while values breathe. @param {number} highest @param {string} unit */
function niceTop(highest, unit) {
  if (highest <= 0) return 1;
  if (unit === "B" || unit === "B/s") {
    const step = 2 ** Math.floor(Math.log2(highest)) / 4;
    return Math.ceil((highest * 1.02) / step) * step;
  }
  const step = 10 ** Math.floor(Math.log10(highest)) / (highest / 10 ** Math.floor(Math.log10(highest)) < 2.5 ? 4 : 1);
  return Math.ceil((highest * 1.02) / step) * step;
}

/** Four or fewer parts of the axis at round values. @param {string} unit @param {number} top */
function tickStyle(unit, top) {
  if (unit === "B") return byteTicks(top);
  if (unit === "B/s") return byteTicks(top, "/s");
  const ticks = { tickmode: "linear", tick0: 0, dtick: roundStep(top) };
  if (unit === "ratio") return { ...ticks, tickformat: ".0%" };
  if (unit === "s" || unit === "W") return { ...ticks, tickformat: "~s", ticksuffix: unit };
  return { ...ticks, tickformat: "~s" };
}

/** @param {number} top */
function roundStep(top) {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10);
}

/** @param {import("./lines.js").Line} line */
function legendItem(line) {
  const item = document.createElement("li");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 8");
  svg.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS("http://www.w3.org/2000/svg", "path");
  stroke.setAttribute("d", "M0 4h16");
  stroke.setAttribute("stroke-width", "3");
  stroke.setAttribute("stroke", `var(${line.color})`);
  if (line.dash) stroke.setAttribute("stroke-dasharray", "4 2");
  svg.append(stroke);
  const name = document.createElement("span");
  name.className = "name";
  name.textContent = line.name;
  item.append(svg, name, document.createElement("output"));
  return item;
}
