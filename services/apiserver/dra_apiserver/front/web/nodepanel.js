// A node's panel: how it is, its labels, its pods, and what would happen without it, or with more like it.

import { actionsOnNode } from "./actions.js";
import { pods } from "./cluster.js";
import { STATES } from "./fleet.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { past } from "./moments.js";
import { WhatIf } from "./preview.js";

const MOST = 100;

export function NodePanel({ node, close }) {
  const here = pods.value.filter((pod) => pod.node === node.name);
  const counts = STATES.map((state) => [state, node.boards.filter((board) => board.state === state).length]).filter(([, count]) => count);
  return html`<aside class="panel" aria-label="Node">
    <header><h2>${node.name}</h2><button onClick=${close} aria-label="Close">×</button></header>
    <p><span class=${`chip ${node.ready ? "free" : "unhealthy"}`}>${node.ready ? "ready" : "not ready"}</span>
      ${node.cordoned && html` <span class="chip tainted">cordoned</span>`}</p>
    ${node.taints.map((taint) => html`<p class="bad">taint ${taint}</p>`)}
    <p>${counts.length ? "Devices: " : "It has no device."}${counts.map(([state, count]) => html`<span class=${`chip ${state}`}>${state} <b>${count}</b></span> `)}</p>
    ${!past.value && html`<${WhatIf} key=${node.name} actions=${actionsOnNode(node.name)} node=${node} />`}
    <h3>Pods</h3>
    ${here.length ? html`<ul>${here.slice(0, MOST).map((pod) => html`<li><${Link} to=${`pods/${pod.key}`}>${pod.key}<//> <span class=${`chip phase-${pod.phase}`}>${pod.phase}</span></li>`)}</ul>` : html`<p class="note">None runs here.</p>`}
    ${here.length > MOST && html`<p>${here.length - MOST} more are not shown.</p>`}
    <details><summary>Labels</summary><table>${Object.entries(node.labels).map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}</table></details>
  </aside>`;
}
