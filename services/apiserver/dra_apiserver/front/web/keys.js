// Keys that work on every page, with the habits of k9s. Fields, terminals and the picture of the fleet keep their own.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { go, namespace, param, place } from "./links.js";
import { filter } from "./list.js";
import { readOnly } from "./moments.js";
import { openSearch } from "./search.js";

const tab = param("tab");
const helping = signal(false);

const HELP = [
  ["/ or Ctrl K", "search everything; on a list, also filter it"],
  [":", "go to a page, such as :pods or :po kube-system"],
  ["j, k", "the next or previous row of a list"],
  ["g, G", "the first or last row"],
  ["Enter", "open the row"],
  ["d, y, v, h", "of an object: overview, YAML, events, history"],
  ["l", "the logs of a pod"],
  ["e", "edit the YAML"],
  ["c", "create objects"],
  ["0", "all namespaces"],
  ["Esc", "back: from an edit, an object, or a filter"],
  ["?", "these keys"],
];

const own = (element) => element.matches?.("input, textarea, select, canvas, [contenteditable], .xterm, .xterm *") || element.closest?.("dialog");

const rows = () => [...document.querySelectorAll("main .list tbody a.name")];

/** Move the focus along the rows of a list. */
function move(by) {
  const all = rows();
  const now = all.findIndex((link) => link === document.activeElement || link.closest("tr").contains(document.activeElement));
  const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + by))];
  next?.focus();
}

/** A part of the object that is shown, or of the row that has the focus. */
const part = (name, more) => () => {
  const row = document.activeElement?.closest("main .list tr")?.querySelector("a.name");
  const to = row ? decodeURI(row.hash.replace(/^#\/?/, "").split("?")[0]) : place.value;
  if (!to.includes("/") || !document.querySelector(row ? "main .list" : "main .object")) return;
  if (name === "logs" && !to.startsWith("pods/")) return;
  go(to, { tab: name, ...more });
};

const edit = () => readOnly.value || part("yaml", { edit: "yes" })();

/** One step back: from an edit to the YAML, from a part to the object, from an object to the list, from a filter to all rows. */
function back() {
  const [page, ...rest] = place.value.split("/");
  if (tab.value) go(place.value);
  else if (rest.length) go(page);
  else if (filter.value) filter.value = "";
}

const KEYS = {
  "/": () => openSearch(),
  ":": () => openSearch(":"),
  "?": () => (helping.value = true),
  j: () => move(1),
  k: () => move(-1),
  g: () => rows()[0]?.focus(),
  G: () => rows().at(-1)?.focus(),
  d: part(""),
  y: part("yaml"),
  v: part("events"),
  h: part("history"),
  l: part("logs"),
  e: edit,
  c: () => go("create"),
  0: () => (namespace.value = ""),
  Escape: back,
};

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    openSearch();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (own(event.target)) {
    // Escape leaves a filter, so that the other keys work again.
    if (event.key === "Escape" && event.target.matches("input.filter")) event.target.blur();
    return;
  }
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

export function Help() {
  const dialog = useRef(null);
  useEffect(() => (helping.value ? dialog.current.showModal() : dialog.current.close()), [helping.value]);
  return html`<dialog class="keys" ref=${dialog} aria-label="Keys" onClose=${() => (helping.value = false)}>${helping.value && html`<h2>Keys</h2><table><tbody>
    ${HELP.map(([key, text]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table><button onClick=${() => (helping.value = false)}>Close</button>`}</dialog>`;
}

export const HelpButton = () => html`<button class="help" aria-label="Keys" title="Keys" onClick=${() => (helping.value = true)}>?</button>`;
