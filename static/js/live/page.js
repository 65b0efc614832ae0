// A page with live charts: one socket, a ring for each topic, charts drawn one per animation frame, badges every half second.

import { clock, pageZone } from "../lib/time.js";
import { judge, show } from "./badge.js";
import { Chart } from "./chart.js";
import { forgetColors } from "./lines.js";
import { LiveSocket } from "./socket.js";

const FRESH_MS = 3000;
const FRESH_POLLING_MS = 6000;

/** @typedef {import("./ring.js").Ring} Ring */

/** The page's socket, for whoever looks at it from the console. @type {LiveSocket | null} */
export let current = null;

/** @param {any} plotly Plotly's global */
export function startLivePage(plotly) {
  const zone = pageZone();
  const specs = JSON.parse(document.getElementById("chart-specs")?.textContent ?? "{}");
  const cards = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-chart]")]);
  const charts = cards.map((card) => ({ card, topic: card.dataset.topic ?? "", chart: new Chart(card, specs[card.dataset.chart ?? ""], { zone, plotly }) }));
  const badges = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-badge]")]);
  const topics = [...new Set([...charts.map(({ topic }) => topic), ...badges.map((badge) => badge.dataset.topic ?? "")])].filter(Boolean);
  const events = /** @type {HTMLElement | null} */ (document.querySelector("[data-marks]"));

  const socket = new LiveSocket(topics, {
    onChange: (topic) => {
      const ring = socket.ring(topic);
      for (const entry of charts) if (entry.topic === topic) entry.chart.offer(ring);
      if (events?.dataset.topic === topic) listMarks(events, ring, zone);
      for (const listener of listeners) listener(topic, ring);
    },
  });

  const judgeAll = () => {
    for (const badge of badges) {
      const topic = badge.dataset.topic ?? "";
      const polling = socket.polling && !socket.linked;
      show(badge, judge({
        linked: socket.linked, polling: socket.polling, signedOut: socket.signedOut, everLinked: socket.everLinked,
        frameAgeMs: socket.frameAgeMs(topic), staleAfterMs: polling ? FRESH_POLLING_MS : FRESH_MS,
        error: socket.errors.get(topic), agents: socket.ring(topic).latest?.agents ?? [],
      }));
    }
  };

  // requestAnimationFrame rests while the tab is hidden, and so do the charts; one chart a frame keeps the page responsive.
  const drawNext = (/** @type {number} */ now) => {
    charts.find(({ chart }) => chart.isDue(now))?.chart.draw(now);
    requestAnimationFrame(drawNext);
  };

  const retheme = () => {
    forgetColors();
    for (const { chart } of charts) chart.redraw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
  new MutationObserver(retheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });

  current = socket;
  socket.start();
  setInterval(judgeAll, 500);
  requestAnimationFrame(drawNext);
}

/** @type {((topic: string, ring: Ring) => void)[]} */
const listeners = [];

/** Be told of each change of a topic: for parts of a page that are not charts. @param {(topic: string, ring: Ring) => void} listener */
export function onFrames(listener) {
  listeners.push(listener);
}

/** What happened in the time that the charts show, newest first. @param {HTMLElement} list @param {Ring} ring @param {string} zone */
function listMarks(list, ring, zone) {
  const marks = ring.marks().slice(-20).reverse();
  const key = marks.map((mark) => `${mark.at_s}${mark.label}`).join("\n");
  if (list.dataset.key === key || !marks.length) return;
  list.dataset.key = key;
  list.replaceChildren(
    ...marks.map((mark) => {
      const item = document.createElement("li");
      const time = document.createElement("span");
      time.className = "muted";
      time.textContent = clock(mark.at_s, zone);
      const text = document.createElement(mark.url.startsWith("/") ? "a" : "span");
      if (text instanceof HTMLAnchorElement) text.href = mark.url;
      text.textContent = mark.label;
      item.append(time, text);
      return item;
    }),
  );
}
