// The fleet page: the picture, what it is coloured, grouped and filtered by, and the board that was chosen.

import { computed, signal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Board } from "./board.js";
import { classes, nodes, slices, world } from "./cluster.js";
import { colourOf, legend, ownValues, scheme } from "./colours.js";
import { classesOf, selections, unknown, wantSelections } from "./classes.js";
import { STATES, STRANDED } from "./fleet.js";
import { html } from "./html.js";
import { layout } from "./layout.js";
import { go, Link } from "./links.js";
import { NodePanel } from "./nodepanel.js";
import { Picture } from "./picture.js";

const ZONE = "topology.kubernetes.io/zone";
const STEP = 60;

export const selected = signal("");
const group = signal("");
const colour = signal("state");
const filter = signal("");
const state = signal("");
const ofClass = signal("");
// In place of a class's name: devices that no class selects.
const NO_CLASS = "(none)";
// What boards have besides attributes.
const OWN = ["class", "namespace", "driver", "pool"];
const hovered = signal(undefined);

const attributes = computed(() => {
  const found = new Set();
  for (const slice of slices.value) {
    for (const device of slice.devices ?? []) for (const name in device.attributes) found.add(name);
  }
  return [...found].sort();
});
const labels = computed(() => {
  const found = new Set([ZONE]);
  for (const node of nodes.value) for (const name in node.labels) found.add(name);
  return [...found].sort();
});
const plan = computed(() => {
  const wanted = filter.value.trim().toLowerCase();
  const shown = (board, node) =>
    matches(board, node, wanted) &&
    (!state.value || (state.value === STRANDED ? board?.stranded : board?.state === state.value)) &&
    (!ofClass.value || selects(ofClass.value, board));
  return layout(world.value.nodes, {
    group: (node) => (group.value ? groupOf(node, group.value) : ""),
    shown: wanted || state.value || ofClass.value ? shown : undefined,
  });
});
/** The boards in the order of the picture, for the keyboard and the table. */
const boards = computed(() => plan.value.places.flatMap((place) => place.boards));
/** The board that was chosen. It stays when it changes so that the filter does not show it any more. */
const chosen = computed(() => {
  if (!selected.value) return undefined;
  for (const node of world.value.nodes) {
    const found = node.boards.find((board) => board.key === selected.value);
    if (found) return found;
  }
  return undefined;
});

/** Whether a class selects a device of the board, or none does. */
function selects(name, board) {
  return (board?.devices ?? []).some((device) => {
    const classes = classesOf(device);
    return name === NO_CLASS ? selections.value && !classes.length : classes.includes(name);
  });
}

function groupOf(node, by) {
  if (by.startsWith("label:")) return node.labels[by.slice(6)] ?? "";
  if (by.startsWith("own:")) return [...new Set(node.boards.flatMap((board) => ownValues(by.slice(4), board)))].sort().join(", ");
  const values = node.boards.flatMap((board) => board.devices.slice(0, 1)).map((device) => value(device, by.slice(10)));
  return [...new Set(values)].sort().join(", ");
}

const value = (device, name) => String(Object.values(device.attributes[name] ?? { none: "" })[0]);

function matches(board, node, wanted) {
  if (!wanted || node.name.toLowerCase().includes(wanted)) return true;
  return (board?.devices ?? []).some(
    (device) =>
      device.key.toLowerCase().includes(wanted) ||
      Object.keys(device.attributes).some((name) => value(device, name).toLowerCase().includes(wanted)) ||
      device.holders.some(({ claim, pods }) => `${claim} ${pods.join(" ")}`.toLowerCase().includes(wanted)),
  );
}

/** `name` is the node that was chosen, if one was. */
export function Fleet({ name }) {
  const node = name && world.value.nodes.find((one) => one.name === name);
  // A node that is chosen takes the place of a device.
  useEffect(() => void (name && (selected.value = "")), [name]);
  return html`<section class="fleet" aria-label="Fleet"><h1 class="hidden">Fleet</h1>
    <${Controls} />
    <div class="split">
      <${Canvas} />
      ${chosen.value ? html`<${Board} board=${chosen.value} close=${() => choose("")} />` : node && html`<${NodePanel} node=${node} close=${() => go("fleet")} />`}
    </div>
    <${Table} />
  </section>`;
}

/** Shows a board's panel, or none. */
function choose(key) {
  selected.value = key;
  go("fleet");
}

/** Notes what was chosen; what depends on classes is asked for then. */
function choosing(what, event) {
  what.value = event.target.value;
  if (what === ofClass || what.value === "class" || what.value === "own:class") wantSelections();
}

function Controls() {
  const totals = world.value.totals;
  const choose = (one) => () => (state.value = state.value === one ? "" : one);
  return html`<div class="controls">
    <label>Filter <input type="search" value=${filter} placeholder="node, model, claim, pod" onInput=${(event) => (filter.value = event.target.value)} /></label>
    <label>Group by <select value=${group} onChange=${(event) => choosing(group, event)}>
      <option value="">nothing</option>
      ${OWN.map((name) => html`<option value=${`own:${name}`}>${name}</option>`)}
      ${labels.value.map((name) => html`<option value=${`label:${name}`}>${name}</option>`)}
      ${attributes.value.map((name) => html`<option value=${`attribute:${name}`}>${name}</option>`)}
    </select></label>
    <label>Colour by <select value=${colour} onChange=${(event) => choosing(colour, event)}>
      <option value="state">state</option>
      ${OWN.map((name) => html`<option value=${name}>${name}</option>`)}
      ${attributes.value.map((name) => html`<option value=${name}>${name}</option>`)}
    </select></label>
    <label>Devices of <select value=${ofClass.value} onChange=${(event) => choosing(ofClass, event)}>
      <option value="">any class</option>
      ${classes.value.map(({ name }) => html`<option value=${name}>${name}</option>`)}
      <option value=${NO_CLASS}>no class</option>
    </select></label>
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

function Canvas() {
  const ref = useRef(null);
  const picture = useRef(null);
  const drag = useRef({});
  useEffect(() => {
    const made = new Picture(ref.current, (board) => colourOf(colour.value, board, ref.current));
    picture.current = made;
    // Tests and the console of the browser's tools find it here.
    ref.current.picture = made;
    const observer = new ResizeObserver(() => (made.fitted ? made.fit() : made.request()));
    observer.observe(ref.current);
    const wheel = (event) => {
      event.preventDefault();
      made.zoom(Math.exp(-event.deltaY / 300), pixel(event));
    };
    ref.current.addEventListener("wheel", wheel, { passive: false });
    return () => observer.disconnect();
  }, []);
  useSignalEffect(() => picture.current?.show(plan.value));
  useSignalEffect(() => {
    // Read for their effect.
    colour.value;
    selections.value;
    scheme.value;
    picture.current?.recolour();
  });
  useEffect(() => picture.current?.show(plan.value), []);
  useSignalEffect(() => picture.current?.select(selected.value));
  return html`<div class="canvas">
    <canvas ref=${ref} tabindex="0" role="application" aria-label="Picture of all devices. Arrow keys choose one, plus and minus zoom, 0 shows everything."
      aria-describedby="chosen" ...${pointing(picture, drag)} onKeyDown=${(event) => pressed(event, picture.current)}></canvas>
    <p id="chosen" class="hidden" aria-live="polite">${describe(selected.value && boards.value.find((one) => one.key === selected.value))}</p>
    ${hovered.value && html`<p class="tip" style=${{ left: `${hovered.value.x + 14}px`, top: `${hovered.value.y + 14}px` }}>${hovered.value.text}</p>`}
    ${!boards.value.length && html`<p class="empty">${world.value.nodes.length ? "No device matches." : "There is no node yet."}</p>`}
  </div>`;
}

/** The mouse: drag to pan, click to choose, rest to read. */
function pointing(picture, drag) {
  return {
    onPointerDown: (event) => {
      drag.current = { from: event, moved: false };
      event.target.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event) => {
      const { from } = drag.current;
      if (from) {
        drag.current.moved ||= Math.hypot(event.clientX - from.clientX, event.clientY - from.clientY) > 3;
        picture.current.move(event.movementX, event.movementY);
        return;
      }
      const found = picture.current.hit(pixel(event));
      const board = found && found.index >= 0 ? (picture.current.part(pixel(event)) ?? found.place.boards[found.index]) : undefined;
      const text = found && (board ? describe(board) : found.place.node.name);
      hovered.value = text ? { ...pixel(event), text } : undefined;
    },
    onPointerUp: (event) => {
      const { moved } = drag.current;
      drag.current = {};
      if (moved) return;
      const found = picture.current.hit(pixel(event));
      choose(found && found.index >= 0 ? found.place.boards[found.index].key : "");
      if (found && found.index < 0) go(`fleet/${found.place.node.name}`);
    },
    onPointerLeave: () => (hovered.value = undefined),
    onDblClick: (event) => picture.current.zoom(2, pixel(event)),
  };
}

const pixel = (event) => ({ x: event.offsetX, y: event.offsetY });

function pressed(event, picture) {
  const actions = {
    "+": () => picture.zoom(1.4),
    "=": () => picture.zoom(1.4),
    "-": () => picture.zoom(1 / 1.4),
    0: () => picture.fit(),
    Escape: () => choose(""),
    ArrowRight: () => step(1, picture),
    ArrowLeft: () => step(-1, picture),
    ArrowDown: () => step(plan.value.block.columns, picture),
    ArrowUp: () => step(-plan.value.block.columns, picture),
    PageDown: () => picture.move(0, -STEP),
    PageUp: () => picture.move(0, STEP),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function step(by, picture) {
  const all = boards.value;
  if (!all.length) return;
  const now = all.findIndex((board) => board.key === selected.value);
  const next = now < 0 ? 0 : Math.min(all.length - 1, Math.max(0, now + by));
  choose(all[next].key);
  picture.select(selected.value, true);
}

/** One line about a board. */
function describe(board) {
  if (!board) return "";
  const holders = [...new Set(board.devices.flatMap((device) => device.holders.map(({ claim }) => claim)))];
  const held = holders.length ? `, claim ${holders.slice(0, 3).join(", ")}` : "";
  return `${board.node} ${board.devices.length === 1 ? board.devices[0].name : board.name}: ${board.state}${board.fill > 0 && board.fill < 1 ? ` ${Math.round(board.fill * 100)} %` : ""}${held}`;
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
