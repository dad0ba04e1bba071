// The search over everything: pages, kinds, namespaces, and the objects of all kinds by their names.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { list } from "./api.js";
import { informers, namespaces, world } from "./cluster.js";
import { kindOf, kinds, pageOf, pathOf, wantKinds } from "./discovery.js";
import { html } from "./html.js";
import { go, namespace, place } from "./links.js";
import { filter } from "./list.js";
import { PAGES } from "./navigation.js";
import { matcher } from "./order.js";

const MOST = 40;
// What the search found of other kinds is good for so long, in milliseconds.
const FRESH = 30_000;
// Of these there are many, and no one looks for them by name.
const LEFT_OUT = new Set(["events", "leases", "endpointslices", "endpoints", "controllerrevisions", "csinodes", "ipaddresses"]);
// The console has them already.
const HELD = { nodes: "nodes", pods: "pods", claims: "resourceclaims", classes: "deviceclasses", slices: "resourceslices" };

const text = signal("");
const active = signal(0);
const opened = signal(false);
let dialog;
let input;

/** Open the search at once: what is typed next, before anything is drawn, is already its own. */
export function openSearch(first = "") {
  text.value = input.value = first;
  active.value = 0;
  opened.value = true;
  if (!dialog.open) dialog.showModal();
  input.focus();
  readOthers();
}

const others = signal([]);
let readAt = -Infinity;

/** Read the names of all kinds that the console does not hold. */
async function readOthers() {
  await wantKinds();
  if (performance.now() - readAt < FRESH) return;
  readAt = performance.now();
  const held = new Set(Object.values(HELD));
  const wanted = (kinds.value ?? []).filter(({ plural }) => !held.has(plural) && !LEFT_OUT.has(plural));
  const found = await Promise.all(wanted.map(named));
  others.value = found.flat();
}

async function named(kind) {
  const found = [];
  const add = (items) => found.push(...items.map(({ metadata }) => entry(kind.kind, pageOf(kind), metadata)));
  // Who may not list a kind finds none of its objects.
  await list(pathOf(kind), add, undefined, METADATA).catch(() => {});
  return found;
}

const METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const entry = (kind, page, { namespace, name }) => {
  const full = namespace ? `${namespace}/${name}` : name;
  return { kind, name: full, short: name, to: `${page}/${full}` };
};

/** Everything that has a name here, as `{kind, name, short, to}`. */
function everything() {
  const pages = Object.entries(PAGES).flatMap(([, all]) => all.map(([page, title]) => ({ kind: "Page", name: title, short: title, to: page })));
  const served = (kinds.value ?? []).map((kind) => ({ kind: "Kind", name: kind.plural, short: kind.plural, more: kind.short.join(" "), to: pageOf(kind) }));
  const spaces = namespaces.value.map((name) => ({ kind: "Only namespace", name, short: name, act: () => (namespace.value = name) }));
  const held = { nodes: "Node", pods: "Pod", claims: "Claim", classes: "DeviceClass", slices: "ResourceSlice" };
  const objects = Object.entries(held).flatMap(([page, kind]) => [...informers[page].objects.values()].map((one) => entry(kind, page, one)));
  const devices = world.value.nodes.flatMap(({ boards, name: node }) => boards.map((board) => ({ kind: "Device", name: `${node}/${board.name}`, short: board.name, to: `fleet/${node}`, params: { device: board.key } })));
  return [...pages, ...spaces, ...objects, ...others.value, ...served, ...devices];
}

/** The entries that match, the best first: those whose names begin so. */
function found(typed, all) {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return all.slice(0, 12);
  const matches = matcher(wanted);
  const ranked = [[], [], []];
  for (const one of all) {
    if (!matches(`${one.kind} ${one.name} ${one.more ?? ""}`)) continue;
    const name = one.short.toLowerCase();
    ranked[name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2].push(one);
  }
  return ranked.flat().slice(0, MOST);
}

/** What `:pods` or `:po kube-system` means, as in k9s: a page, and perhaps a namespace (`all` for all). */
function commands(typed, all) {
  const [wanted = "", space] = typed.slice(1).trim().toLowerCase().split(/\s+/);
  const pages = all.filter(({ kind }) => kind === "Page" || kind === "Kind");
  const exact = kindOf(wanted);
  const chosen = [...(exact ? [{ kind: "Kind", name: exact.plural, to: pageOf(exact) }] : []), ...pages.filter(({ name, more }) => name.toLowerCase().startsWith(wanted) || more?.split(" ").includes(wanted))];
  const once = [...new Map(chosen.map((one) => [one.to, one])).values()].slice(0, MOST);
  return space === undefined ? once : once.map((one) => ({ ...one, name: `${one.name} in ${space === "all" ? "all namespaces" : space}`, params: { ns: space === "all" ? "" : space } }));
}

export function Search() {
  const all = useMemo(() => (opened.value ? everything() : []), [opened.value, kinds.value, others.value]);
  const options = opened.value ? optionsFor(text.value, all) : [];
  const choose = (one) => {
    if (!one) return;
    dialog.close();
    if (one.act) one.act();
    else go(one.to, one.params);
  };
  const move = (way) => (active.value = (active.value + way + options.length) % (options.length || 1));
  // Read again: a key may come before the text that was typed is drawn.
  const keys = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: () => choose(optionsFor(text.value, all)[active.value]) };
  return html`<dialog class="search" ref=${(element) => (dialog = element)} aria-label="Search" onClose=${() => (opened.value = false)} onClick=${(event) => event.target === dialog && dialog.close()}>
    <input ref=${(element) => (input = element)} type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-autocomplete="list" aria-label="Search for anything, or : and a kind" autocomplete="off" spellcheck="false"
      aria-activedescendant=${options.length ? `found-${active.value}` : undefined} placeholder="A name, a kind, a namespace; : for a page"
      onInput=${(event) => { text.value = event.target.value; active.value = 0; }}
      onKeyDown=${(event) => { if (event.key in keys) { event.preventDefault(); keys[event.key](); } }} />
    <ul id="found" role="listbox" aria-label="Results">${options.map((one, index) => html`<${Option} key=${`${one.kind} ${one.name} ${one.to}`} one=${one} index=${index} active=${index === active.value} choose=${choose} />`)}</ul>
    ${opened.value && !options.length && html`<p class="empty">Nothing has this name.</p>`}</dialog>`;
}

/** On a list, the first choice is to filter it. */
function optionsFor(wanted, all) {
  if (wanted.startsWith(":")) return commands(wanted, all);
  const narrows = wanted.trim() && !place.value.includes("/") && document.querySelector("main input.filter");
  const narrow = narrows ? [{ kind: "Filter", name: `this list by “${wanted.trim()}”`, act: () => (filter.value = wanted.trim()) }] : [];
  return [...narrow, ...found(wanted, all)];
}

function Option({ one, index, active, choose }) {
  const ref = useRef(null);
  useEffect(() => void (active && ref.current.scrollIntoView({ block: "nearest" })), [active]);
  return html`<li ref=${ref} id=${`found-${index}`} role="option" aria-selected=${active} onClick=${() => choose(one)}><span class="note">${one.kind}</span> ${one.name}</li>`;
}

/** The button that says how to search. */
export const SearchButton = () => html`<button class="seek" onClick=${() => openSearch()}>Search <kbd>/</kbd></button>`;
