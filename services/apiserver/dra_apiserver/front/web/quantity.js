// Kubernetes quantities as numbers, precise enough for pictures: "40Gi" is 42949672960.

const SUFFIXES = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};
const FORM = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)$/;

/** The number; 0 for what is no quantity. */
export function quantity(text) {
  const match = FORM.exec(String(text));
  return match ? Number(match[1]) * (SUFFIXES[match[2]] ?? 0) : 0;
}

/** A number as a person writes it: 42949672960 is "40Gi". */
export function readable(number) {
  const unit = ["Ti", "Gi", "Mi", "Ki"].find((name) => number >= SUFFIXES[name]);
  if (!unit) return String(Math.round(number * 1000) / 1000);
  return `${Math.round((number / SUFFIXES[unit]) * 100) / 100}${unit}`;
}
