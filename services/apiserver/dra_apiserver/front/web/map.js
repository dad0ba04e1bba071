// The fleet as a map: a canvas that draws thousands of nodes, with the mouse and the keys that move it.

import { signal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { selections } from "./classes.js";
import { world } from "./cluster.js";
import { colourOf, scheme } from "./colours.js";
import { html } from "./html.js";
import { turn } from "./links.js";
import { Picture } from "./picture.js";
import { boards, choose, colour, describe, plan, selected, size } from "./selection.js";
import { Zoom } from "./zoom.js";

const STEP = 60;
const FACTOR = 1.4;
const NUDGE = 40;
const hovered = signal(undefined);

export function FleetMap() {
  const ref = useRef(null);
  const picture = useRef(null);
  const drag = useRef({});
  useEffect(() => {
    const made = new Picture(ref.current, (board) => colourOf(colour.value, board, ref.current));
    picture.current = made;
    // Tests and the console of the browser's tools find it here.
    ref.current.picture = made;
    const observer = new ResizeObserver(([{ contentRect: { width, height } }]) => {
      // Nodes keep their places while the picture grows a little, as by a line above it.
      if (width && height && Math.hypot(width - size.value.width, height - size.value.height) > NUDGE) size.value = { width, height };
      if (made.fitted) made.fit();
      else made.request();
    });
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
    <${Zoom} larger=${() => picture.current.zoom(FACTOR)} smaller=${() => picture.current.zoom(1 / FACTOR)} fit=${() => picture.current.fit()} />
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
      if (found && found.index < 0) turn(`fleet/${found.place.node.name}`);
    },
    onPointerLeave: () => (hovered.value = undefined),
    onDblClick: (event) => picture.current.zoom(2, pixel(event)),
  };
}

const pixel = (event) => ({ x: event.offsetX, y: event.offsetY });

function pressed(event, picture) {
  const actions = {
    "+": () => picture.zoom(FACTOR),
    "=": () => picture.zoom(FACTOR),
    "-": () => picture.zoom(1 / FACTOR),
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
