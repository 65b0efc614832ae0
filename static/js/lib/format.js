// Numbers as people read them, by unit. Pure functions; the units are those of the KPI catalogue.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number} value @param {number} digits significant digits */
function significant(value, digits = 3) {
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(Math.max(digits - 1 - magnitude, 0), 6));
}

/** @param {number} value */
export function bytes(value) {
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit < BINARY.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${value < 0 ? "-" : ""}${unit === 0 ? size.toFixed(0) : significant(size)} ${BINARY[unit]}`;
}

/** @param {number} value seconds */
export function seconds(value) {
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${significant(value * 1e6)} µs`;
  if (size < 1) return `${significant(value * 1e3)} ms`;
  return `${significant(value)} s`;
}

/** @param {number} value @param {string} unit */
function withPrefix(value, unit) {
  const size = Math.abs(value);
  if (size === 0) return `0 ${unit}`;
  for (const [factor, prefix] of /** @type {[number, string][]} */ ([[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"]])) {
    if (size >= factor) return `${significant(value / factor)} ${prefix}${unit}`;
  }
  return `${value.toExponential(1)} ${unit}`;
}

/** How each unit of the KPI catalogue is written. @type {Record<string, (value: number) => string>} */
const WRITERS = {
  ratio: (value) => `${(100 * value).toFixed(1)} %`,
  s: seconds,
  B: bytes,
  "B/s": (value) => `${bytes(value)}/s`,
  W: (value) => withPrefix(value, "W"),
  "J/token": (value) => withPrefix(value, "J/token"),
  "1/s": (value) => `${significant(value)} /s`,
};

/** Write a value with its unit; a dash for an unknown one. @param {number | null | undefined} value @param {string} unit */
export function withUnit(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const write = WRITERS[unit];
  return write ? write(value) : `${significant(value)} ${unit}`;
}

/**
 * Ticks of a byte axis at round binary values, which Plotly's decimal ticks would miss.
 * @param {number} highest largest value on the axis
 * @param {string} suffix for example "/s"
 */
export function byteTicks(highest, suffix = "") {
  const wanted = Math.max(highest, 1) / 4;
  const step = 2 ** Math.ceil(Math.log2(wanted));
  const values = [];
  for (let value = 0; value <= highest * 1.02 + step / 2 && values.length < 9; value += step) values.push(value);
  return { tickvals: values, ticktext: values.map((value) => (value === 0 ? "0" : bytes(value).replace(/\.0+ /, " ") + suffix)) };
}
