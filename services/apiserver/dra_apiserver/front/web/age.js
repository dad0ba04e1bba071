// How old an object is. Each age is a component of its own, so that a second that passes redraws nothing else.

import { signal } from "@preact/signals";
import { instant } from "./moments.js";
import { since } from "./times.js";

const TICK = 1000;
const seconds = signal(0);

setInterval(() => (seconds.value += 1), TICK);

/** `live` counts to now, also on a page that shows the past. */
export function Age({ of, live }) {
  seconds.value; // Reading it subscribes to it.
  return since(of, live ? Date.now() : instant());
}
