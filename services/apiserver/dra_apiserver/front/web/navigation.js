// The pages of the console and the way between them: the column on the left, which is a menu on a narrow screen.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { namespaces, pods } from "./cluster.js";
import { html } from "./html.js";
import { address, namespace, place } from "./links.js";
import { settings } from "./settings.js";

/** Groups of `[page, title]`. */
export const PAGES = {
  Cluster: [["overview", "Overview"], ["fleet", "Fleet"], ["nodes", "Nodes"], ["events", "Events"]],
  Work: [["workloads", "Workloads"], ["pods", "Pods"], ["quotas", "Quotas"]],
  Devices: [["claims", "Claims"], ["claimtemplates", "Claim templates"], ["classes", "Classes"], ["slices", "Slices"]],
  More: [["create", "Create"], ["cel", "CEL"], ["kinds", "All kinds"]],
};

const open = signal(false);

export function Menu() {
  return html`<button class="menu" aria-expanded=${open.value} aria-controls="pages" onClick=${() => (open.value = !open.value)}>Menu</button>`;
}

export function Navigation() {
  // The menu closes when a page is chosen.
  useEffect(() => void (open.value = false), [place.value]);
  const [page] = place.value.split("/");
  const groups = settings.value.learn ? { Lessons: [["learn", "Learn"]], ...PAGES } : PAGES;
  const waiting = pods.value.filter((pod) => pod.phase === "Pending").length;
  return html`<nav id="pages" class=${open.value ? "pages open" : "pages"} aria-label="Views">${Object.entries(groups).map(([title, pages]) => html`<div><h2>${title}</h2><ul>${pages.map(([name, text]) => html`<li><a href=${address(name)} aria-current=${name === page ? "page" : undefined}>${text}${name === "pods" && waiting > 0 ? html` <span class="count">${waiting}</span>` : ""}</a></li>`)}</ul></div>`)}</nav>`;
}

/** The namespace that lists show, on all pages. */
export function NamespaceChoice() {
  const known = namespaces.value;
  const all = namespace.value && !known.includes(namespace.value) ? [namespace.value, ...known] : known;
  return html`<label class="namespace"><span>Namespace</span> <select value=${namespace.value} onChange=${(event) => (namespace.value = event.target.value)}>
    <option value="">all</option>${all.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`;
}
