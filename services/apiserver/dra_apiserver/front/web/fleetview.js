// The fleet page: the picture as cards or as a map, what chooses and colours its devices, and the panel of what was chosen.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Board } from "./board.js";
import { Cards, FACTOR } from "./cards.js";
import { unknown, wantSelections } from "./classes.js";
import { classes, world } from "./cluster.js";
import { legend } from "./colours.js";
import { STATES, STRANDED } from "./fleet.js";
import { html } from "./html.js";
import { Link, turn } from "./links.js";
import { FleetMap } from "./map.js";
import { NodePanel } from "./nodepanel.js";
import { attributes, boards, choose, chosen, colour, describe, drawn, filter, group, labels, NO_CLASS, NOTHING, ofClass, OWN, plan, selected, state } from "./selection.js";
import { Zoom } from "./zoom.js";

// More nodes or devices than these are a map.
const MOST_CARDS = 120;
const MOST_TILES = 1000;
/** How much larger than the page suggests tiles are. */
const zoom = signal(1);

/** True if the fleet is drawn as cards. */
function asCards() {
  if (drawn.value) return drawn.value === "cards";
  return plan.value.places.length <= MOST_CARDS && boards.value.length <= MOST_TILES;
}

/** `name` is the node that was chosen, if one was. */
export function Fleet({ name }) {
  const cards = asCards();
  const node = name && world.value.nodes.find((one) => one.name === name);
  // A node that is chosen takes the place of a device.
  useEffect(() => void (usesClasses() && wantSelections()), []);
  useEffect(() => void (name && selected.type("")), [name]);
  return html`<section class="fleet" aria-label="Fleet"><h1 class="hidden">Fleet</h1>
    <${Controls} cards=${cards} />
    <div class="split">
      ${cards ? html`<${Cards} groups=${plan.value.groups} selected=${selected.value} colour=${colour.value} choose=${choose} describe=${describe} zoom=${zoom.value} setZoom=${(value) => (zoom.value = value)} />` : html`<${FleetMap} />`}
      ${chosen.value ? html`<${Board} board=${chosen.value} close=${() => choose("")} />` : node && html`<${NodePanel} node=${node} close=${() => turn("fleet")} />`}
    </div>
    <${Table} />
  </section>`;
}

const usesClasses = () => ofClass.value !== "" || colour.value === "class" || group.value === "own:class";

/** Notes what was chosen; what depends on classes is asked for then. */
function choosing(what, event) {
  what.value = event.target.value;
  if (usesClasses()) wantSelections();
}

function Controls({ cards }) {
  const totals = world.value.totals;
  const choose = (one) => () => (state.value = state.value === one ? "" : one);
  return html`<div class="controls">
    <label>Filter <input type="search" value=${filter.value} placeholder="node, model, claim, pod" onInput=${(event) => filter.type(event.target.value)} /></label>
    <label>Group by <select value=${group.value} onChange=${(event) => choosing(group, event)}>
      <option value="">NVLink domain, model</option>
      <option value=${NOTHING}>nothing</option>
      ${OWN.map((name) => html`<option value=${`own:${name}`}>${name}</option>`)}
      ${labels.value.map((name) => html`<option value=${`label:${name}`}>${name}</option>`)}
      ${attributes.value.map((name) => html`<option value=${`attribute:${name}`}>${name}</option>`)}
    </select></label>
    <label>Colour by <select value=${colour.value} onChange=${(event) => choosing(colour, event)}>
      <option value="state">state</option>
      ${OWN.map((name) => html`<option value=${name}>${name}</option>`)}
      ${attributes.value.map((name) => html`<option value=${name}>${name}</option>`)}
    </select></label>
    <label>Devices of <select value=${ofClass.value} onChange=${(event) => choosing(ofClass, event)}>
      <option value="">any class</option>
      ${classes.value.map(({ name }) => html`<option value=${name}>${name}</option>`)}
      <option value=${NO_CLASS}>no class</option>
    </select></label>
    <span class="views" role="group" aria-label="Drawn as">${["cards", "map"].map((one) => html`<button aria-pressed=${cards === (one === "cards")} onClick=${() => (drawn.value = one)}>${one === "cards" ? "Cards" : "Map"}</button>`)}</span>
    ${cards && html`<${Zoom} larger=${() => (zoom.value *= FACTOR)} smaller=${() => (zoom.value /= FACTOR)} fit=${() => (zoom.value = 1)} />`}
    ${unknown.value && html`<span class="bad">classes: ${unknown.value}</span>`}
    <div class="legend" role="group" aria-label="Show only one state">
      ${colour.value === "state"
        ? STATES.map((one) => html`<button class=${`chip ${one}`} aria-pressed=${state.value === one} onClick=${choose(one)}>
            ${one} <b>${totals.states[one]}</b></button>`).concat(html`<button class=${`chip ${STRANDED}`} aria-pressed=${state.value === STRANDED}
            title="Something of the device is left that no request could get" onClick=${choose(STRANDED)}>${STRANDED} <b>${totals.stranded}</b></button>`)
        : legend(colour.value, boards.value).map(([name, hue]) => html`<span class="chip" style=${{ "--chip": hue }}>${name}</span>`)}
    </div>
  </div>`;
}

const MOST_ROWS = 200;

function Table() {
  const [open, setOpen] = useState(false);
  const shown = open ? boards.value.slice(0, MOST_ROWS) : [];
  const empty = open ? plan.value.places.filter((place) => !place.boards.length).slice(0, MOST_ROWS).map(({ node }) => node) : [];
  return html`<details class="table" onToggle=${(event) => setOpen(event.target.open)}><summary>As a table (${boards.value.length})</summary>
    <table><thead><tr><th>Node</th><th>Device</th><th>Driver</th><th>State</th><th>Claims</th></tr></thead><tbody>
      ${shown.map((board) => html`<tr key=${board.key}><td><${Link} to=${`fleet/${board.node}`}>${board.node}<//></td>
        <td><button class="link" onClick=${() => choose(board.key)}>${board.name}</button></td>
        <td>${board.driver}</td><td><span class=${`chip ${board.state}`}>${board.state}</span></td>
        <td>${[...new Set(board.devices.flatMap((device) => device.holders.map(({ claim }) => claim)))].join(", ")}</td></tr>`)}
      ${empty.map((node) => html`<tr key=${node.name}><td><${Link} to=${`fleet/${node.name}`}>${node.name}<//></td><td colspan="4">no device</td></tr>`)}
    </tbody></table>
    ${boards.value.length > MOST_ROWS && html`<p>${boards.value.length - MOST_ROWS} more: a filter narrows them.</p>`}
  </details>`;
}
