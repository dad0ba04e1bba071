// A board's panel: its devices, who holds them, their attributes and what is left of its counters.

import { useState } from "preact/hooks";
import { actionsOn } from "./actions.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { past } from "./moments.js";
import { WhatIf } from "./preview.js";
import { readable } from "./quantity.js";

const MOST = 40;

export function Board({ board, close }) {
  const held = board.devices.filter((device) => device.holders.length);
  const [all, setAll] = useState(false);
  const first = [...held, ...board.devices.filter((device) => !device.holders.length)];
  const shown = all ? first : first.slice(0, MOST);
  return html`<aside class="panel" aria-label="Device">
    <header><h2>${board.name}</h2><button onClick=${close} aria-label="Close">×</button></header>
    <p>${board.driver} on <${Link} to=${`fleet/${board.node}`}>${board.node}<//> <span class=${`chip ${board.state}`}>${board.state}</span></p>
    ${board.stranded && html`<p class="note">Stranded: something of it is left, but too little for any request.</p>`}
    ${Object.entries(board.levels).map(([name, { used, total }]) => html`<${Level} name=${name} used=${used} total=${total} />`)}
    ${shown.map((device) => html`<${Device} key=${device.key} device=${device} open=${board.devices.length === 1} />`)}
    ${board.devices.length > 0 && !past.value && html`<${WhatIf} key=${board.key} actions=${actionsOn(first[0])} device=${first[0]} />`}
    ${first.length > shown.length && html`<button onClick=${() => setAll(true)}>Show ${first.length - shown.length} more</button>`}
  </aside>`;
}

function Level({ name, used, total }) {
  return html`<label class="level">${name}: ${readable(used)} of ${readable(total)}
    <meter min="0" max=${total || 1} value=${used} /></label>`;
}

function Device({ device, open }) {
  const capacity = Object.entries(device.capacity).map(([name, { value }]) => [name, value]);
  const attributes = Object.entries(device.attributes).map(([name, one]) => [name, text(Object.values(one)[0])]);
  return html`<details class="device" open=${open || device.holders.length > 0}>
    <summary>${device.name} <span class=${`chip ${device.state}`}>${device.state}</span></summary>
    ${device.holders.map((holder) => html`<p>held by <${Link} to=${`claims/${holder.claim}`}>claim ${holder.claim}<//>
      ${holder.pods.map((pod) => html`, <${Link} to=${`pods/${holder.namespace}/${pod}`}>pod ${pod}<//>`)}
      ${Object.entries(holder.consumed).map(([name, value]) => html` · ${value} of ${name}`)}</p>`)}
    ${device.taints.map((taint) => html`<p class="bad">taint ${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}</p>`)}
    ${device.health && html`<p>health: ${device.health}</p>`}
    <table>${[...attributes, ...capacity].map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}</table>
  </details>`;
}

const text = (value) => (Array.isArray(value) ? value.join(", ") : String(value));
