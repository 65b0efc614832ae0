// Times in the reader's own zone, and ages that stay current.

const offsets = new Map();

/**
 * Minutes that `zone` is ahead of UTC at a moment; remembered per quarter of an hour, since Intl is slow.
 * @param {number} atMs @param {string} zone
 */
function offsetMinutes(atMs, zone) {
  const slot = Math.floor(atMs / 900_000);
  const key = `${zone}:${slot}`;
  let offset = offsets.get(key);
  if (offset === undefined) {
    const moment = new Date(slot * 900_000);
    const parts = Object.fromEntries(
      new Intl.DateTimeFormat("en-US", {
        timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric",
      }).formatToParts(moment).map((part) => [part.type, Number(part.value)]),
    );
    const local = Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute);
    offset = Math.round((local - moment.getTime()) / 60_000);
    if (offsets.size > 64) offsets.clear();
    offsets.set(key, offset);
  }
  return offset;
}

/** The zone that the page was rendered for. */
export function pageZone() {
  return document.documentElement.dataset.timeZone || "UTC";
}

/** A moment as `YYYY-MM-DD HH:MM:SS.mmm` in `zone`: what Plotly's date axes take. @param {number} atS @param {string} zone */
export function local(atS, zone) {
  const shifted = new Date(atS * 1000 + offsetMinutes(atS * 1000, zone) * 60_000);
  return shifted.toISOString().replace("T", " ").replace("Z", "");
}

/** The time of day in `zone`. @param {number} atS @param {string} zone */
export function clock(atS, zone) {
  return local(atS, zone).slice(11, 19);
}

/** A duration in its largest one or two units. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  for (const [size, unit, below, lower] of /** @type {[number, string, number, string][]} */ ([[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]])) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / below);
      return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${lower}` : ""}`;
    }
  }
  return `${whole} s`;
}

/** Bring every `<time data-ago>` below `root` up to date. @param {ParentNode} root */
export function refreshAges(root = document) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-ago]")) {
    const age = (now - Date.parse(element.getAttribute("datetime") ?? "")) / 1000;
    if (!Number.isFinite(age)) continue;
    const text = age >= 0 ? `${duration(age)} ago` : `in ${duration(-age)}`;
    if (element.textContent !== text) element.textContent = text;
  }
}
