// The last frames of one topic, in order, without duplicates: what charts, tables and CSV files are drawn from.

/**
 * @typedef {{id: string, name: string, state: string, age_s: number | null, kpis: Record<string, number | null>}} AgentPart
 * @typedef {{at_s: number, kind: string, label: string, url: string}} Mark
 * @typedef {{topic: string, epoch: string | number, seq: number, at_s: number, kpis: Record<string, number | null>, agents: AgentPart[], marks: Mark[]}} Frame
 */

export class Ring {
  /** @param {number} capacity frames kept */
  constructor(capacity = 300) {
    this.capacity = capacity;
    /** @type {Frame[]} */
    this.frames = [];
    /** @type {string | number | null} */
    this.epoch = null;
  }

  /** The newest frame, if any. @returns {Frame | undefined} */
  get latest() {
    return this.frames[this.frames.length - 1];
  }

  /** Where a stream goes on: what a reconnecting client tells the server. */
  get position() {
    return this.latest ? { epoch: this.latest.epoch, seq: this.latest.seq } : null;
  }

  /** Forget everything. @param {string | number | null} epoch of the frames to come */
  reset(epoch = null) {
    this.frames = [];
    this.epoch = epoch;
  }

  /**
   * Take a frame to its place. One of another epoch than before begins anew. Returns false for a duplicate or one too old.
   * @param {Frame} frame
   */
  push(frame) {
    if (frame.epoch !== this.epoch) this.reset(frame.epoch);
    let at = this.frames.length;
    while (at > 0 && this.frames[at - 1].seq > frame.seq) at -= 1;
    if (at > 0 && this.frames[at - 1].seq === frame.seq) return false;
    if (at === 0 && this.frames.length >= this.capacity) return false;
    this.frames.splice(at, 0, frame);
    if (this.frames.length > this.capacity) this.frames.shift();
    return true;
  }

  /** Take many frames; tell whether any was new. @param {Frame[]} frames */
  pushAll(frames) {
    let fresh = false;
    for (const frame of frames) fresh = this.push(frame) || fresh;
    return fresh;
  }

  /** Marks of the frames kept, oldest first, each once. @returns {Mark[]} */
  marks() {
    const seen = new Map();
    for (const frame of this.frames) {
      for (const mark of frame.marks ?? []) seen.set(`${mark.at_s} ${mark.kind} ${mark.label}`, mark);
    }
    return [...seen.values()].sort((a, b) => a.at_s - b.at_s);
  }

  /** Agents of the frames kept, by id: name as last seen. @returns {Map<string, string>} */
  agents() {
    const names = new Map();
    for (const frame of this.frames) for (const agent of frame.agents ?? []) names.set(agent.id, agent.name);
    return new Map([...names].sort((a, b) => a[1].localeCompare(b[1])));
  }
}
