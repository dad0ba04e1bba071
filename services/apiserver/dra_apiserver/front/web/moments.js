// The moment that the console shows: now, live, or one of the past that the server remembers (docs/history.md).
//
// A moment is shown by what differs from what is shown, or else by the lists below `/at/REVISION`; played, by the changes
// since then, in order, as often as there are some. Servers that remember nothing have no `/history`, and so no past here.

import { computed, signal } from "@preact/signals";
import { request } from "./api.js";
import { running, start } from "./cluster.js";
import { settings } from "./settings.js";

const TICK = 250;
const PAGE = 5000;

/** `{oldest, newest}`, each with `revision` and `time` in ms; undefined while the server has no past. */
export const range = signal(undefined);
/** `{revision, time}` of the past moment that is shown; undefined while it is now. */
export const past = signal(undefined);
/** How much faster than it was the past is played; 0 while it stands. */
export const speed = signal(0);
/** What keeps a moment from being shown. */
export const failure = signal("");
/** Whether nothing may be changed: the past can't be, and a console may be read only. */
export const readOnly = computed(() => settings.value.read_only || past.value !== undefined);

/** The time of what is shown, in ms. */
export const instant = () => past.value?.time ?? Date.now();

let live = new AbortController();
/** Aborts when the page no longer shows now. */
export const untilPast = () => live.signal;
let seeking = new AbortController();

/** The moment that the page was opened for (`dralab console --at`); empty for now. */
export const asked = new URLSearchParams(location.search).get("at") ?? "";

/** Begins with what is now, or was at the moment that is asked for. */
export async function begin() {
  if (!asked) start(live.signal);
  try {
    const found = await look(asked || "now");
    if (asked) await seek(found ? found.time : Date.now());
  } catch (error) {
    if (!asked) throw error;
    now();
    failure.value = error.message;
    await look();
  }
}

const moment = ({ revision, time }) => ({ revision, time: Date.parse(time) });

/** Learns between which moments the past is kept; gives the moment that `at` means. */
export async function look(at = "now", signal) {
  try {
    const found = await request(`/history?at=${encodeURIComponent(at)}`, { signal });
    const newest = moment(found.newest);
    // A server without any event has no time.
    range.value = { oldest: found.oldest.time ? moment(found.oldest) : newest, newest };
    return moment(found.at);
  } catch (error) {
    if (error.status === 404) range.value = undefined;
    else throw error;
  }
}

/** Shows the cluster as it was at a time in ms. */
export async function seek(time) {
  seeking.abort();
  seeking = new AbortController();
  const { signal: stopped } = seeking;
  live.abort();
  try {
    const found = await look(new Date(time).toISOString(), stopped);
    await Promise.all(running().map((one) => one.at(found.revision, stopped)));
    past.value = { revision: found.revision, time };
    failure.value = "";
  } catch (error) {
    if (!stopped.aborted) failure.value = error.message;
  }
}

/** Goes back to now. */
export function now() {
  seeking.abort();
  live.abort();
  live = new AbortController();
  past.value = undefined;
  speed.value = 0;
  failure.value = "";
  // A page that is loaded again shows what it showed.
  if (asked) window.history.replaceState(null, "", location.pathname + location.hash);
  start(live.signal);
}

/** Plays on from the moment that is shown, so much faster than it was, until the newest is reached. */
export async function play(factor) {
  const playing = speed.value > 0;
  speed.value = factor;
  if (playing || !factor) return;
  try {
    let last = performance.now();
    while (speed.value > 0 && past.value) {
      await new Promise((done) => setTimeout(done, TICK));
      const elapsed = performance.now() - last;
      last = performance.now();
      if (speed.value > 0 && past.value) await advance(past.value.time + elapsed * speed.value);
    }
  } catch (error) {
    failure.value = error.message;
    speed.value = 0;
  }
}

async function advance(time) {
  const { revision } = past.value;
  const until = Math.min(time, Date.now());
  const found = await look(new Date(until).toISOString());
  if (found.revision !== revision) {
    await Promise.all(running().map((one) => catchUp(one, revision, found.revision)));
  }
  // Someone may have chosen another moment meanwhile.
  if (past.value?.revision !== revision) return;
  past.value = { revision: found.revision, time: until };
  if (until < time) speed.value = 0;
}

async function catchUp(informer, from, to) {
  if (!informer.paths.length) return;
  if (informer.paths[0].includes("?")) {
    await informer.at(to, seeking.signal);
    return;
  }
  for await (const change of changes(informer.paths[0], from, to, "objects=true&changes=false")) informer.apply(change);
  informer.revision = to;
}

/** The changes of a resource's objects after one revision, up to another, in order. */
export async function* changes(path, from, to, query) {
  let after = from;
  for (;;) {
    const page = await request(`/history${path}?from=${after}&to=${to}&order=oldest&limit=${PAGE}&pretty=false&${query}`);
    yield* page.items;
    if (!page.more) return;
    after = page.items.at(-1).revision;
  }
}
