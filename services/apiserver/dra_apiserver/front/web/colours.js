// What colour a board has: by its state, by the namespace that holds it, or by an attribute's value.

import { signal } from "@preact/signals";
import { classesOf } from "./classes.js";

const HUES = [211, 35, 151, 280, 0, 90, 320, 180, 55, 245];

/** `{base, full}`: of the whole board, and of the part that is taken. */
export function colourOf(by, board, element) {
  if (by === "state") {
    const colours = stateColours(board.state, element);
    return board.stranded ? { ...colours, base: stateColours("stranded", element).full } : colours;
  }
  const hue = hueOf(valueOf(by, board));
  if (hue === undefined) return stateColours("free", element);
  return { base: `hsl(${hue} 45% 50% / 0.35)`, full: `hsl(${hue} 60% 45%)` };
}

/** The values in the picture with their colours, most frequent first. */
export function legend(by, boards) {
  const counts = new Map();
  for (const board of boards) counts.set(valueOf(by, board), (counts.get(valueOf(by, board)) ?? 0) + 1);
  return [...counts]
    .filter(([name]) => name)
    .sort(([, a], [, b]) => b - a)
    .slice(0, 12)
    .map(([name, count]) => [`${name} · ${count}`, `hsl(${hueOf(name)} 60% 45%)`]);
}

/** The values of what boards have besides attributes: classes, namespaces, driver and pool. */
export function ownValues(by, board) {
  if (by === "class") return [...new Set(board.devices.flatMap(classesOf))].sort();
  if (by === "namespace") return board.devices.flatMap((device) => device.holders.map((holder) => holder.namespace));
  return [board.devices[0][by]];
}

function valueOf(by, board) {
  if (by === "class") return ownValues(by, board).join(", ");
  if (by === "namespace" || by === "driver" || by === "pool") return ownValues(by, board)[0] ?? "";
  return String(Object.values(board.devices[0].attributes[by] ?? { none: "" })[0]);
}

function hueOf(name) {
  if (!name) return undefined;
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 1_000_003;
  return HUES[sum % HUES.length];
}

const known = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Whether colours are for a dark page. */
export const scheme = signal(dark.matches);
dark.addEventListener("change", () => {
  known.clear();
  scheme.value = dark.matches;
});

function stateColours(state, element) {
  // Asking the browser for a style costs more than drawing a board.
  if (!known.has(state)) {
    const style = getComputedStyle(element);
    const full = style.getPropertyValue(`--${state}`).trim();
    known.set(state, { base: state === "used" || state === "waiting" ? style.getPropertyValue("--rest").trim() : full, full });
  }
  return known.get(state);
}
