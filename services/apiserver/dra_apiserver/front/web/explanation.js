// Why a pod is where it is, or nowhere: the scheduler's own explanation, as a tree that opens down to a device's value.

import { html } from "./html.js";
import { useAnswer } from "./answers.js";
import { Remedy } from "./remedy.js";

export function Explanation({ of, version }) {
  const [report, error] = useAnswer(`/insight/explain/${of}?nodes=50`, version);
  if (error) return html`<p class="note">No explanation: ${error.message}</p>`;
  if (!report) return html`<p class="note">Asking the scheduler…</p>`;
  return html`<${Explained} report=${report} />`;
}

// The first word of a report's state, as a chip is coloured.
const CHIPS = { pending: "waiting", running: "used", scheduled: "used", placed: "used", failed: "unhealthy" };

/** The state with its reason and its remedy as a card, and below it the tree. */
export function Explained({ report }) {
  const kind = CHIPS[report.state.split(/\W/)[0]] ?? "";
  return html`<div class="explanation">
    <section class=${`card verdict ${kind}`} aria-label="Why"><p class="state">${report.state}</p>
      ${report.message && html`<p>${report.message}</p>`}
      ${report.notSimulated ? html`<p>not simulated: ${report.notSimulated}</p>` : ""}
      ${(report.waitsFor ?? []).map((text) => html`<p>waits for ${text}</p>`)}
      ${(report.summary ?? []).length > 0 && html`<ul class="summary">${report.summary.map((one) => html`<li><b>${one.count}</b> ${one.count === 1 ? "node" : "nodes"} <span class="note">${(one.objections ?? []).join("; ") || "could take it"}</span></li>`)}</ul>`}
      ${(report.shortfalls ?? []).map((text) => html`<p class="change">${text}</p>`)}
      <${Remedy} report=${report} /></section>
    ${(report.unpublished ?? []).map((held) => html`<p class="bad">No ResourceSlice publishes device ${held.device} any more, which ${held.claims.join(", ")} holds${held.pods?.length ? ` (${held.pods.join(", ")})` : ""}.</p>`)}
    ${(report.notAsked ?? []).map((name) => html`<p class="note">Not asked: extender ${name}, which might reject nodes.</p>`)}
    ${report.group && html`<${Group} group=${report.group} />`}
    ${(report.nodes ?? []).length > 0 && html`<h2>Nodes</h2>`}
    ${(report.nodes ?? []).map((node) => html`<${Node} key=${node.node} node=${node} closest=${node.node === report.closest} />`)}
    ${report.nodesLeftOut > 0 && html`<p class="note">${report.nodesLeftOut} more nodes are left out.</p>`}
    ${report.notExamined > 0 && html`<p class="bad">Stopped for lack of time: ${report.notExamined} nodes were not examined.</p>`}
  </div>`;
}

function Group({ group }) {
  return html`<details open><summary>group ${group.group}: ${group.placed ?? 0}${group.minCount ? ` of at least ${group.minCount}` : ""} placed</summary>
    <ul>${(group.members ?? []).map((one) => html`<li>${one.pod}: ${one.state} ${one.node} ${one.message}</li>`)}</ul>
    ${group.together?.length > 0 && html`<p>Tried together now:</p><ul>${group.together.map((one) => html`<li>${one.pod}: ${place(one)}</li>`)}</ul>`}</details>`;
}

const place = ({ node, devices, message }) => node ? `${node} ${(devices ?? []).join(", ")}` : message || "not tried, for lack of time";

function Node({ node, closest }) {
  const objections = Object.entries(node.objections ?? {});
  return html`<details class="tree" open=${closest}><summary>${node.node} ${node.fits ? html`<span class="chip free">fits</span>` : html`<span class="chip tainted">does not</span>`} ${closest && html`<span class="chip">closest</span>`}</summary>
    ${objections.map(([plugin, texts]) => html`<p><code>${plugin}</code>: ${texts.join("; ")}</p>
      <ul>${(node.saw?.[plugin] ?? []).map((text) => html`<li>${text}</li>`)}</ul>`)}
    ${(node.remedies ?? []).map((text) => html`<p class="change">${text}</p>`)}
    ${(node.pools ?? []).filter((pool) => pool.problem).map((pool) => html`<p class="bad">pool ${pool.pool}: ${pool.problem}</p>`)}
    ${(node.pools ?? []).filter((pool) => pool.warning).map((pool) => html`<p class="bad">pool ${pool.pool}: ${pool.warning}</p>`)}
    ${(node.silentDrivers ?? []).map((driver) => html`<p class="note">driver ${driver} publishes no devices for this node</p>`)}
    ${(node.requests ?? []).map((one) => html`<${Request} request=${one} all=${node.requests} />`)}
    ${(node.allocated ?? []).length > 0 && html`<p>${node.fits ? "would get" : "could have"} ${node.allocated.join(", ")}</p>`}
  </details>`;
}

/** Whether a request has its devices, or why it has none: an alternative may have been taken in its place. */
function outcome(request, all) {
  if (request.taken) return `, ${request.taken} taken`;
  const [parent, alternative] = request.request.split("/");
  const instead = alternative && all.find((one) => one.taken && one.claim === request.claim && one.request.startsWith(`${parent}/`));
  if (instead) return `, not taken: alternative ${instead.request} is`;
  return request.reached ? "" : ", not tried";
}

function Request({ request, all }) {
  return html`<details class="tree" open=${(request.suitable ?? 0) < request.count}><summary>claim ${request.claim}, request ${request.request}
    ${request.deviceClass && html` (class ${request.deviceClass})`}: ${request.count || "all"} wanted, ${request.suitable ?? 0} would suit${outcome(request, all)}</summary>
    ${together(request.devices ?? []).map((devices) => html`<${Devices} devices=${devices} />`)}
  </details>`;
}

/** Devices for which the same is true, those that came nearest first: a class's selector turns away what is of no interest. */
function together(devices) {
  const groups = new Map();
  for (const device of devices) {
    const same = JSON.stringify(device.details ?? device.reasons ?? []);
    if (!groups.has(same)) groups.set(same, []);
    groups.get(same).push(device);
  }
  const foreign = ([{ details }]) => Number((details ?? []).some((one) => one.deviceClass));
  return [...groups.values()].sort((a, b) => foreign(a) - foreign(b));
}

const NAMED = 4;

function Devices({ devices }) {
  const [first] = devices;
  const names = devices.map(({ device }) => device.split("/").pop());
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  const gist = (first.details ?? []).map((one) => one.gist).join("; ") || (first.reasons ?? []).join("; ");
  return html`<details class="tree"><summary>${names.slice(0, NAMED).join(", ")}${more}: ${gist || "could be had"}</summary>
    ${(first.details ?? []).map((one) => html`<${Reason} reason=${one} />`)}
    ${more && html`<p class="note">${names.join(", ")}</p>`}</details>`;
}

function Reason({ reason }) {
  const saw = Object.entries(reason.saw ?? {});
  return html`<div class="reason"><p>${reason.gist}${reason.values && !saw.length && !reason.lacks?.length ? ` ${reason.values}` : ""}</p>
    ${reason.expression && html`<pre><code>${reason.expression}</code></pre>`}
    ${reason.error && html`<p class="bad">${reason.error}</p>`}
    ${saw.length > 0 && html`<table>${saw.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}</table>`}
    ${(reason.lacks ?? []).map((name) => html`<p>no attribute ${name}</p>`)}
  </div>`;
}
