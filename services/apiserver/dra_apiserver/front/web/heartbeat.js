// The server's pulse: a small question every second, so that the page says at once when what it shows may be old.

import { effect, signal } from "@preact/signals";
import { Age } from "./age.js";
import { trouble } from "./cluster.js";
import { html } from "./html.js";

const EVERY = 1000;
const PATIENCE = 2000;

/** The time of the last answer, as text, while the server is silent; else empty. */
export const silentSince = signal("");
let last = new Date().toISOString();
let asking = false;

async function ask() {
  // A page that no one sees needs no pulse.
  if (asking || document.hidden) return;
  asking = true;
  try {
    await fetch("/version", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    last = new Date().toISOString();
    silentSince.value = "";
  } catch {
    silentSince.value = last;
  }
  asking = false;
}

setInterval(ask, EVERY);
document.addEventListener("visibilitychange", ask);
// A watch that fails is a sign that comes before the next question.
effect(() => void (trouble.value.length && ask()));

export function Silence() {
  if (!silentSince.value) return null;
  return html`<p class="trouble" role="alert">The server does not answer. What is shown is as of <span aria-hidden="true"><${Age} of=${silentSince.value} live=${true} /></span> ago.</p>`;
}
