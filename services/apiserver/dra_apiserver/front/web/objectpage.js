// The page of one object of any kind: what it is, its YAML, events and history, and its logs if it is a pod.

import { useEffect, useMemo } from "preact/hooks";
import { Age } from "./age.js";
import { plural } from "./columns.js";
import { Copy } from "./copy.js";
import { Deletion } from "./deletion.js";
import { kindOf, kinds, pageOf, pathOf, placeOf, unknown, wantKinds } from "./discovery.js";
import { EventsOf } from "./events.js";
import { html } from "./html.js";
import { address, go, Link, param, place } from "./links.js";
import { readOnly } from "./moments.js";
import { ObjectHistory } from "./objecthistory.js";
import { Owned } from "./owned.js";
import { images, references } from "./references.js";
import { useObject } from "./visit.js";
import { Yaml } from "./yamlview.js";

export const tab = param("tab");

const TABS = { "": "Overview", yaml: "YAML", events: "Events", history: "History" };

/**
 * `parts` are what a kind has of its own: `{title, chip(name), tabs: {name: {title, view(name, object)}}, overview(name, object, path),
 * shown, acts}`: `shown` are the kinds that the overview links to, and `acts` is set if it can delete the object.
 */
export function ObjectPage({ page, name, parts = {} }) {
  useEffect(() => void wantKinds(), []);
  const kind = kindOf(page);
  if (!kind) return html`<section><h1>${page}</h1><p class="empty">${unknown.value || (kinds.value ? `The server has no kind ${page}.` : "loading…")}</p></section>`;
  const [namespace, own] = kind.namespaced ? name.split("/") : ["", name];
  if (!own) return html`<section><h1>${kind.kind}</h1><p class="empty">The address of ${kind.kind} has a namespace and a name.</p></section>`;
  return html`<${Loaded} key=${name} kind=${kind} name=${name} path=${pathOf(kind, namespace, own)} parts=${parts} />`;
}

function Loaded({ kind, name, path, parts }) {
  const { object: item, state } = useObject(path);
  // Items of a list have no kind of their own.
  const object = useMemo(() => item && { ...item, kind: kind.kind, apiVersion: kind.group ? `${kind.group}/${kind.version}` : kind.version }, [item]);
  const title = parts.title ?? kind.kind;
  const gone = !object && state !== "loading";
  const version = object?.metadata.resourceVersion ?? state;
  const tabs = { ...TABS, ...Object.fromEntries(Object.entries(parts.tabs ?? {}).map(([id, one]) => [id, one.title])) };
  const chosen = tab.value in tabs ? tab.value : "";
  return html`<section class="object" aria-label=${`${title} ${name}`}>
    <p class="crumbs"><${Link} to=${pageOf(kind)}>← ${plural(title)}<//></p>
    <div class="titled"><h1>${title} ${name} ${parts.chip?.(name)}</h1><${Copy} text=${name.split("/").pop()} what="the name" /></div>
    <nav class="tabs" aria-label="Parts">${Object.entries(tabs).map(([id, text]) => html`<a href=${address(place.value, { tab: id })} aria-current=${id === chosen ? "page" : undefined}>${text}</a>`)}</nav>
    ${gone && html`<p class="empty">${state === "live" ? `There is no ${title.toLowerCase()} of this name. Its history, and the slider over the past, may have it.` : state}</p>`}
    ${chosen === "" && html`${parts.overview?.(name, object, path)}${object && html`<${About} object=${object} kind=${kind} path=${path} parts=${parts} />`}`}
    ${chosen === "yaml" && object && html`<${Yaml} path=${path} version=${version} />`}
    ${chosen === "events" && object && html`<${EventsOf} object=${object} />`}
    ${chosen === "history" && html`<${ObjectHistory} path=${path} version=${version} />`}
    ${parts.tabs?.[chosen]?.view(name, object)}
  </section>`;
}

/** What all kinds have: owners, labels, conditions, links, and the objects that belong to it. */
function About({ object, kind, path, parts }) {
  const { metadata, spec, status } = object;
  const conditions = (status?.conditions ?? []).filter((one) => one.type);
  const links = references(object).filter((one) => !parts.shown?.includes(one.kind));
  const run = images(spec);
  const owners = metadata.ownerReferences ?? [];
  return html`<div class="about"><section aria-label="About"><h2>About</h2><table class="facts"><tbody>
      <tr><th scope="row">Created</th><td><time datetime=${metadata.creationTimestamp}>${new Date(metadata.creationTimestamp).toLocaleString()}</time>, <${Age} of=${metadata.creationTimestamp} /> ago</td></tr>
      ${metadata.deletionTimestamp && html`<tr><th scope="row">Deleted</th><td class="bad"><${Age} of=${metadata.deletionTimestamp} /> ago; it waits for ${metadata.finalizers?.join(", ") || "its grace period"}</td></tr>`}
      ${metadata.namespace && html`<tr><th scope="row">Namespace</th><td><${Link} to=${`namespaces/${metadata.namespace}`}>${metadata.namespace}<//></td></tr>`}
      ${owners.length > 0 && html`<tr><th scope="row">Owner</th><td>${owners.map((one) => html`<${To} object=${{ ...one, namespace: metadata.namespace }} />`)}</td></tr>`}
      ${links.length > 0 && html`<tr><th scope="row">Refers to</th><td class="chips">${links.map((one) => html`<${To} object=${one} />`)}</td></tr>`}
      ${run.length > 0 && html`<tr><th scope="row">Images</th><td>${run.map((one) => html`<div class="copied"><code>${one}</code> <${Copy} text=${one} what=${`image ${one}`} /></div>`)}</td></tr>`}
      <tr><th scope="row">Labels</th><td><${Labels} labels=${metadata.labels ?? {}} page=${pageOf(kind)} /></td></tr>
      <tr><th scope="row">UID</th><td class="copied"><code>${metadata.uid}</code> <${Copy} text=${metadata.uid} what="the UID" /></td></tr>
      ${metadata.annotations && html`<tr><th scope="row">Annotations</th><td><details><summary>${Object.keys(metadata.annotations).length}</summary><table><tbody>${Object.entries(metadata.annotations).map(([key, value]) => html`<tr><th scope="row">${key}</th><td>${value}</td></tr>`)}</tbody></table></details></td></tr>`}
    </tbody></table></section>
    ${conditions.length > 0 && html`<section aria-label="Conditions"><h2>Conditions</h2><table class="rows"><thead><tr><th>Condition</th><th>Status</th><th>Since</th><th>Why</th></tr></thead><tbody>
      ${conditions.map((one) => html`<tr><td>${one.type}</td><td>${one.status}</td><td>${one.lastTransitionTime && html`<${Age} of=${one.lastTransitionTime} />`}</td><td>${[one.reason, one.message].filter(Boolean).join(": ")}</td></tr>`)}</tbody></table></section>`}
    <${Owned} object=${object} />
    <section aria-label="Recent events"><h2>Events</h2><${EventsOf} object=${object} /></section>
    ${!parts.acts && !readOnly.value && kind.verbs.includes("delete") && html`<${Deletion} object=${object} path=${path} done=${() => go(pageOf(kind))} />`}
  </div>`;
}

const FEW_LABELS = 12;

/** The labels, each a link to all objects of the kind that have it. Nodes have dozens of them. */
function Labels({ labels, page }) {
  const all = Object.entries(labels);
  if (!all.length) return html`<span class="note">none</span>`;
  const tags = all.map(([key, value]) => html`<span class="tag"><${Link} to=${page} more=${{ q: `${key}=${value}` }} title="All with this label">${key}${value && `=${value}`}<//></span> `);
  return all.length > FEW_LABELS ? html`<details><summary>${all.length} labels</summary>${tags}</details>` : tags;
}

/** An object as a link, if the server has its kind. */
export function To({ object }) {
  const to = placeOf(object);
  return html`<span class="tag"><span class="note">${object.kind}</span> ${to ? html`<${Link} to=${to}>${object.name}<//>` : object.name}</span> `;
}
