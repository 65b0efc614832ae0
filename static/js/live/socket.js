// One websocket for a page: subscribes to topics, resumes where it was, comes back with jittered back-off, and asks by
// plain HTTP while websockets do not get through. The protocol is docs/contracts.md, section 5.

import { Ring } from "./ring.js";

/**
 * @typedef {import("./ring.js").Frame} Frame
 * @typedef {{epoch: string | number, seq: number} | null} Position
 */

const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 15_000;
const PING_EVERY_MS = 10_000;
const SILENT_AFTER_MS = 25_000;
const POLL_EVERY_MS = 2_000;
const POLL_AFTER_FAILURES = 2;
const BACKFILL_EVERY_MS = 5_000;
const CLOCK_SLACK_MS = 5_000;
const SIGNED_OUT_CODES = new Set([4401, 4403]);

/** The pause before the next try: exponential, and half of it by chance, so that a restarted server is not stormed. @param {number} failures @param {number} chance 0..1 */
export function backoffMs(failures, chance = Math.random()) {
  const whole = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, failures - 1));
  return whole / 2 + (whole / 2) * chance;
}

export class LiveSocket {
  /**
   * @param {string[]} topics
   * @param {{url?: string, pollUrl?: (topic: string) => string, onChange: (topic: string) => void, capacity?: number}} options
   *   `onChange` is called whenever a topic's ring has changed.
   */
  constructor(topics, options) {
    this.topics = topics;
    this.url = options.url ?? `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`;
    this.pollUrl = options.pollUrl ?? ((topic) => `/api/v1/telemetry/topics/${encodeURIComponent(topic)}/frames/`);
    this.onChange = options.onChange;
    /** @type {Map<string, Ring>} */
    this.rings = new Map(topics.map((topic) => [topic, new Ring(options.capacity)]));
    /** When the newest frame of each topic was fresh, by performance.now(). @type {Map<string, number>} */
    this.freshAt = new Map();
    /** @type {Map<string, string>} */
    this.errors = new Map();
    /** @type {Set<string>} */
    this.backfilling = new Set();
    this.linked = false;
    this.everLinked = false;
    this.polling = false;
    this.signedOut = false;
    this.failures = 0;
    this.serverAheadS = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.heardAt = 0;
    this.retryTimer = 0;
    this.pollTimer = 0;
  }

  /** Connect, and stay connected until the page goes. */
  start() {
    this.connect();
    setInterval(() => this.keepAlive(), PING_EVERY_MS);
    addEventListener("online", () => this.hurry());
    addEventListener("pageshow", (event) => event.persisted && this.hurry());
    document.addEventListener("visibilitychange", () => !document.hidden && this.hurry());
  }

  connect() {
    clearTimeout(this.retryTimer);
    let socket;
    try {
      socket = new WebSocket(this.url);
    } catch {
      this.lost(0);
      return;
    }
    this.socket = socket;
    socket.onopen = () => this.opened();
    socket.onmessage = (event) => this.heard(event.data);
    socket.onclose = (event) => socket === this.socket && this.lost(event.code);
  }

  opened() {
    this.heardAt = performance.now();
    this.send({ op: "ping" });
    for (const topic of this.topics) this.subscribe(topic);
  }

  /** @param {string} topic */
  subscribe(topic) {
    this.send({ op: "subscribe", topic, resume: this.ring(topic).position });
  }

  /** @param {object} message */
  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /** @param {string} topic @returns {Ring} */
  ring(topic) {
    let ring = this.rings.get(topic);
    if (!ring) this.rings.set(topic, (ring = new Ring()));
    return ring;
  }

  /** @param {string} text */
  heard(text) {
    this.heardAt = performance.now();
    const message = JSON.parse(text);
    if (!this.linked) {
      this.linked = this.everLinked = true;
      this.failures = 0;
      this.signedOut = false;
      this.stopPolling();
    }
    if (message.type === "pong") {
      this.serverAheadS = message.server_time_s - Date.now() / 1000;
      return;
    }
    if (!this.rings.has(message.topic)) return;
    const ring = this.ring(message.topic);
    if (message.type === "reset") ring.reset(message.epoch);
    else if (message.type === "snapshot") this.take(message.topic, message.frames, false);
    else if (message.type === "frame") this.take(message.topic, [message], true);
    else if (message.type === "error") this.errors.set(message.topic, String(message.detail));
    this.onChange(message.topic);
  }

  /** Put frames into the topic's ring. @param {string} topic @param {Frame[]} frames @param {boolean} justMade frames that were sent as they were made, rather than kept ones */
  take(topic, frames, justMade) {
    const ring = this.ring(topic);
    const before = ring.latest;
    const position = ring.position;
    if (!ring.pushAll(frames)) return;
    this.errors.delete(topic);
    // A slow reader is given only the newest frame: what it was spared is fetched once things are calm.
    if (justMade && before && before.epoch === frames[0].epoch && frames[0].seq > before.seq + 1) this.backfill(topic, position);
    const latest = ring.latest;
    if (!latest || latest === before) return;
    // Frames that catch a viewer up look like live ones: only their own time tells. A small difference is the clocks'.
    const ageMs = Math.max(0, (Date.now() / 1000 + this.serverAheadS - latest.at_s) * 1000);
    this.freshAt.set(topic, performance.now() - (justMade && ageMs < CLOCK_SLACK_MS ? 0 : ageMs));
  }

  /** Age of the newest frame in ms, or null before the first. @param {string} topic */
  frameAgeMs(topic) {
    const at = this.freshAt.get(topic);
    return at === undefined ? null : performance.now() - at;
  }

  /** @param {number} code */
  lost(code) {
    this.linked = false;
    this.socket = null;
    this.failures += 1;
    if (SIGNED_OUT_CODES.has(code)) this.signedOut = true;
    if (this.failures >= POLL_AFTER_FAILURES) this.startPolling();
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(() => this.connect(), backoffMs(this.failures));
    for (const topic of this.topics) this.onChange(topic);
  }

  /** A socket that answers nothing is dead, whatever the operating system still believes. */
  keepAlive() {
    if (!this.socket || this.socket.readyState !== WebSocket.OPEN) return;
    if (performance.now() - this.heardAt > SILENT_AFTER_MS) {
      const dead = this.socket;
      this.lost(0);
      dead.close();
    } else {
      this.send({ op: "ping" });
    }
  }

  /** Something happened that makes a try worth while now. */
  hurry() {
    if (!this.socket) this.connect();
    else this.send({ op: "ping" });
  }

  startPolling() {
    if (this.pollTimer) return;
    const round = async () => {
      const answers = await Promise.all(this.topics.map((topic) => this.poll(topic)));
      if (!this.pollTimer) return;
      this.polling = answers.some(Boolean);
      for (const topic of this.topics) this.onChange(topic);
      this.pollTimer = setTimeout(round, POLL_EVERY_MS);
    };
    this.pollTimer = setTimeout(round, 0);
  }

  stopPolling() {
    clearTimeout(this.pollTimer);
    this.pollTimer = 0;
    this.polling = false;
  }

  /** Fetch frames that were left out, at most every few seconds. @param {string} topic @param {Position} position */
  backfill(topic, position) {
    if (this.backfilling.has(topic)) return;
    this.backfilling.add(topic);
    setTimeout(async () => {
      await this.poll(topic, position);
      this.onChange(topic);
      setTimeout(() => this.backfilling.delete(topic), BACKFILL_EVERY_MS);
    }, 500);
  }

  /** Ask for a topic's frames after a position; tell whether the server answered. @param {string} topic @param {Position} position */
  async poll(topic, position = this.ring(topic).position) {
    if (document.hidden) return this.polling;
    const query = position ? `?after=${encodeURIComponent(`${position.epoch}:${position.seq}`)}` : "";
    try {
      const reply = await fetch(this.pollUrl(topic) + query, { credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json" } });
      if (reply.status === 401 || reply.status === 403) this.signedOut = true;
      if (!reply.ok) return false;
      this.signedOut = false;
      this.everLinked = true;
      const dated = Date.parse(reply.headers.get("Date") ?? "");
      if (Number.isFinite(dated)) this.serverAheadS = (dated - Date.now()) / 1000;
      const answer = await reply.json();
      if (answer.reset) this.ring(topic).reset(answer.epoch);
      this.take(topic, answer.frames ?? [], false);
      return true;
    } catch {
      return false;
    }
  }
}
