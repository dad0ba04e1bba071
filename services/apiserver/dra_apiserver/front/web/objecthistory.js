// The history of an object: who changed which fields when.

import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "./answers.js";
import { counted } from "./columns.js";
import { html } from "./html.js";
import { past, range, seek } from "./moments.js";
import { duration } from "./times.js";

const MOST = 200;
const FEW = 8;

export function ObjectHistory({ path, version }) {
  const to = past.value ? `&to=${past.value.revision}` : "";
  const [answer, error] = useAnswer(range.value ? `/history${path}?limit=${MOST}&pretty=false${to}` : "", `${version} ${to}`);
  if (!range.value) return html`<p class="note">This server remembers no history.</p>`;
  if (error) return html`<p class="bad">${error.message}</p>`;
  if (!answer) return html`<p class="note">loading…</p>`;
  const found = answer.items.filter((change) => !isHeartbeat(change)).reverse();
  const heartbeats = answer.items.length - found.length;
  if (!answer.items.length) return html`<p class="note">Nothing has changed it since ${new Date(range.value.oldest.time).toLocaleString()}, which is as far as the server remembers.</p>`;
  return html`<ol class="history">${found.map((change, index) => html`<${Change} key=${change.revision} change=${change} before=${found[index + 1]} />`)}</ol>
    ${heartbeats > 0 && html`<p class="note">${counted(heartbeats, "heartbeat")} left out.</p>`}
    ${answer.more && html`<p class="note">Only the newest ${MOST} changes are shown.</p>`}`;
}

const HEARTBEAT = /(\.lastHeartbeatTime|\.spec\.renewTime)$/;
const isHeartbeat = ({ changes }) => changes?.length > 0 && changes.every(({ path }) => HEARTBEAT.test(path));

function Change({ change, before }) {
  const [all, setAll] = useState(false);
  useEffect(() => setAll(false), [change.revision]);
  const fields = change.changes ?? [];
  const shown = all ? fields : fields.slice(0, FEW);
  const what = { ADDED: "created", DELETED: "deleted", MODIFIED: change.subresource ? `changed (${change.subresource})` : "changed" }[change.type];
  const time = Date.parse(change.time);
  return html`<li class=${change.type.toLowerCase()}><p><time datetime=${change.time}>${new Date(time).toLocaleString()}</time>
      <b> ${what}</b> by ${change.manager || change.user || "the server"}${change.manager && change.user && html` <span class="note">(${change.user})</span>`}
      ${before && html`<span class="note">, ${duration(time - Date.parse(before.time))} later</span>`}
      ${" "}<button class="link" onClick=${() => seek(time)}>Show this moment</button></p>
    ${shown.length > 0 && html`<table><tbody>${shown.map(({ path, old, new: current }) => html`<tr><th scope="row"><code>${path}</code></th><td><del>${value(old)}</del>${old !== undefined && current !== undefined && " → "}<ins>${value(current)}</ins></td></tr>`)}</tbody></table>`}
    ${fields.length > shown.length && html`<button class="link" onClick=${() => setAll(true)}>${fields.length - shown.length} more fields</button>`}</li>`;
}

const LONGEST = 300;
function value(one) {
  if (one === undefined) return "";
  const text = typeof one === "object" ? JSON.stringify(one) : String(one);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
