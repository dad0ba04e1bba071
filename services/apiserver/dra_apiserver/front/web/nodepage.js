// A node's own page: its devices, its pods, and what would happen without it.

import { actionsOnNode } from "./actions.js";
import { pods, world } from "./cluster.js";
import { STATES } from "./fleet.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { past } from "./moments.js";
import { nodeStatus } from "./nodes.js";
import { WhatIf } from "./preview.js";

const MOST = 100;
const found = (name) => world.value.nodes.find((one) => one.name === name);

export const NODE = {
  title: "Node",
  acts: true,
  chip: (name) => html`<${Chip} name=${name} />`,
  overview: (name) => html`<${Overview} name=${name} />`,
};

function Chip({ name }) {
  const node = found(name);
  return node ? html`<span class=${`chip ${node.ready ? (node.cordoned ? "tainted" : "free") : "unhealthy"}`}>${nodeStatus(node)}</span>` : null;
}

function Overview({ name }) {
  const node = found(name);
  if (!node) return null;
  const here = pods.value.filter((pod) => pod.node === name);
  const counts = STATES.map((state) => [state, node.boards.filter((board) => board.state === state).length]).filter(([, count]) => count);
  return html`${node.taints.map((taint) => html`<p class="bad">taint ${taint}</p>`)}
    <p>${counts.length ? "Devices: " : "It has no device."}${counts.map(([state, count]) => html`<span class=${`chip ${state}`}>${state} <b>${count}</b></span> `)} <${Link} to=${`fleet/${name}`}>in the picture<//></p>
    ${node.boards.length > 0 && html`<h2>Devices</h2><div class="list"><table class="rows" aria-label="Devices"><thead><tr><th>Device</th><th>State</th><th>Driver</th><th>Claims</th></tr></thead><tbody>
      ${node.boards.slice(0, MOST).map((board) => html`<tr key=${board.key}><td>${board.name}</td><td><span class=${`chip ${board.state}`}>${board.state}</span>${board.fill > 0 && board.fill < 1 ? ` ${Math.round(board.fill * 100)} %` : ""}</td><td>${board.driver}</td>
        <td>${holders(board).map((claim) => html`<${Link} to=${`claims/${claim}`}>${claim}<//> `)}</td></tr>`)}</tbody></table></div>`}
    ${node.boards.length > MOST && html`<p class="note">${node.boards.length - MOST} more are not shown.</p>`}
    <h2>Pods</h2>${here.length ? html`<ul class="plain">${here.slice(0, MOST).map((pod) => html`<li key=${pod.key}><span class=${`chip phase-${pod.phase}`}>${pod.phase}</span> <${Link} to=${`pods/${pod.key}`}>${pod.key}<//></li>`)}</ul>` : html`<p class="note">None runs here.</p>`}
    ${here.length > MOST && html`<p class="note">${here.length - MOST} more are not shown.</p>`}
    ${!past.value && html`<${WhatIf} key=${name} actions=${actionsOnNode(name)} node=${node} />`}`;
}

const holders = (board) => [...new Set(board.devices.flatMap((device) => device.holders.map(({ claim }) => claim)))];
