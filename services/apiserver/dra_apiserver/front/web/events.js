// Events: of all objects, and of one.

import { useEffect } from "preact/hooks";
import { Age } from "./age.js";
import { counted, namespaceColumn, within } from "./columns.js";
import { placeOf, wantKinds } from "./discovery.js";
import { html } from "./html.js";
import { Link, param } from "./links.js";
import { List } from "./list.js";
import { sortBy } from "./order.js";
import { useObjects } from "./visit.js";

export const EVENTS = "/api/v1/events";
const only = param("type");

/** An Event as lists show it. */
export const keepEvent = ({ metadata, involvedObject, type, reason, message, count, series, lastTimestamp, eventTime, source, reportingComponent }) => ({
  key: `${metadata.namespace}/${metadata.name}`,
  namespace: metadata.namespace,
  name: metadata.name,
  object: involvedObject ?? {},
  type: type ?? "Normal",
  reason: reason ?? "",
  message: message ?? "",
  count: series?.count ?? count ?? 1,
  last: series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp,
  source: source?.component || reportingComponent || "",
});

/** The object that an event is about, as a link to its page. */
function About({ object }) {
  const to = placeOf(object);
  const text = `${object.kind} ${object.name}`;
  return to ? html`<${Link} to=${to} class="name">${text}<//>` : text;
}

const COLUMNS = [
  { id: "last", title: "Last seen", kind: "number", value: (one) => -Date.parse(one.last), cell: (one) => html`<${Age} of=${one.last} />` },
  { id: "type", title: "Type", text: (one) => one.type, cell: (one) => html`<span class=${`chip ${one.type === "Warning" ? "tainted" : ""}`}>${one.type}</span>` },
  { id: "reason", title: "Reason", text: (one) => one.reason },
  { ...namespaceColumn, wide: true },
  { id: "object", title: "Object", text: (one) => `${one.object.kind} ${one.object.name}`, cell: (one) => html`<${About} object=${one.object} />` },
  { id: "message", title: "Message", kind: "why", text: (one) => one.message },
  { id: "count", title: "Count", kind: "number", text: (one) => String(one.count), value: (one) => one.count },
  { id: "source", title: "From", wide: true, text: (one) => one.source },
];

const newest = (rows) => sortBy(rows, (one) => -Date.parse(one.last));

export function Events() {
  useEffect(() => void wantKinds(), []);
  const { rows, state } = useObjects([EVENTS], keepEvent);
  const here = within(rows);
  const found = newest(only.value ? here.filter((one) => one.type === only.value) : here);
  const controls = html`<label>Type <select value=${only.value} onChange=${(event) => (only.value = event.target.value)}>
    <option value="">all</option><option value="Warning">Warning</option><option value="Normal">Normal</option></select></label>`;
  return html`<section aria-label="Events"><h1>Events</h1>
    <${List} label="Events" columns=${COLUMNS} rows=${found} id=${(one) => one.key} hint="object, reason, message" controls=${controls} empty=${state === "loading" ? "loading…" : "There is no event."}
      note=${state === "live" || state === "loading" ? `${counted(here.filter((one) => one.type === "Warning").length, "warning")}, ${here.length} in all` : state} />
  </section>`;
}

/** The events about one object, the newest first. */
export function EventsOf({ object }) {
  const { metadata } = object;
  const folder = metadata.namespace ? `/api/v1/namespaces/${metadata.namespace}/events` : EVENTS;
  // A kubelet writes events about its node under the node's name.
  const selector = object.kind === "Node" ? `involvedObject.kind=Node,involvedObject.name=${metadata.name}` : `involvedObject.uid=${metadata.uid}`;
  const { rows, state } = useObjects([`${folder}?fieldSelector=${encodeURIComponent(selector)}`], keepEvent);
  if (!rows.length) return html`<p class="note">${state === "live" ? "None. Kubernetes keeps events for an hour." : state === "loading" ? "loading…" : state}</p>`;
  return html`<table class="rows" aria-label="Events"><thead><tr><th>Last seen</th><th>Type</th><th>Reason</th><th>Message</th><th>Count</th></tr></thead><tbody>
    ${newest(rows).map((one) => html`<tr key=${one.key}><td class="number"><${Age} of=${one.last} /></td><td><span class=${`chip ${one.type === "Warning" ? "tainted" : ""}`}>${one.type}</span></td>
      <td>${one.reason}</td><td>${one.message}</td><td class="number">${one.count}</td></tr>`)}</tbody></table>`;
}
