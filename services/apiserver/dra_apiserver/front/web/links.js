// The page's address. Its fragment names the view and the object, such as `#/pods/default/x`, and behind `?` the choices made
// there, such as `?ns=default&q=gpu`. The back button undoes a choice, and a copied address shows the same.

import { computed, signal } from "@preact/signals";
import { html } from "./html.js";

const FIRST = "overview";
// Choices that another view takes over.
const KEPT = ["ns"];

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { place: decodeURI(path) || FIRST, params: new URLSearchParams(query) };
}

const here = signal(read());
/** The view and the object, such as `pods/default/x`. */
export const place = computed(() => here.value.place);

const reread = () => (here.value = read());
window.addEventListener("hashchange", reread);
window.addEventListener("popstate", reread);

/** The address of a view, with the choices that it takes over and `more` of its own. */
export function address(to, more = {}) {
  const params = new URLSearchParams(KEPT.map((name) => [name, here.value.params.get(name)]).filter(([, value]) => value));
  for (const [name, value] of Object.entries(more)) if (value) params.set(name, value);
  return written(to, params);
}

function written(to, params) {
  const query = String(params);
  return `#/${encodeURI(to)}${query && "?"}${query}`;
}

/** Show another view, as a click on a link does. */
export function go(to, more) {
  history.pushState(null, "", address(to, more));
  reread();
}

/**
 * Show another object in the same view, whose choices stay except those in `changes`. From one object to the next the browser's
 * history gets no entry, so that the back button leaves the view of all of them.
 */
export function turn(to, changes = {}) {
  const params = new URLSearchParams(here.value.params);
  let replaces = false;
  for (const [name, value] of Object.entries(changes)) {
    replaces ||= Boolean(params.get(name) && value);
    if (value) params.set(name, value);
    else params.delete(name);
  }
  const next = written(to, params);
  if (next === written(place.value, here.value.params)) return;
  if (replaces) history.replaceState(null, "", next);
  else history.pushState(null, "", next);
  reread();
}

/**
 * A choice in the address, which reads like a signal. Setting it adds an entry to the browser's history; `type` replaces the
 * last one, for a field whose every key is a change.
 */
export function param(name, fallback = "") {
  const found = computed(() => here.value.params.get(name) ?? fallback);
  const set = (value, write) => {
    if (value === found.peek()) return;
    const params = new URLSearchParams(here.value.params);
    if (value === fallback) params.delete(name);
    else params.set(name, value);
    write.call(history, null, "", written(place.peek(), params));
    reread();
  };
  return {
    get value() {
      return found.value;
    },
    set value(value) {
      set(value, history.pushState);
    },
    type: (value) => set(value, history.replaceState),
  };
}

/** The namespace that lists are of; empty for all. */
export const namespace = param("ns");

export function Link({ to, more, children, ...rest }) {
  return html`<a href=${address(to, more)} ...${rest}>${children}</a>`;
}
