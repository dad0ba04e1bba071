// The fleet as cards: each node with its devices as tiles, in a frame for each NVLink domain, model or other group.

import { useEffect, useRef, useState } from "preact/hooks";
import { arrange } from "./arrangement.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { hasCapacity } from "./segments.js";
import { Tile } from "./tile.js";

export const FACTOR = 1.25;
/** The least height of the cards, and what stands below them. */
const LEAST = 320;
const BELOW = 64;

/** `groups` are `[{name, places}]`; `describe(board)` is a board in a line. */
export function Cards({ groups, selected, colour, choose, describe, zoom, setZoom }) {
  const ref = useRef(null);
  const room = useRoom(ref);
  const framed = groups.length > 1 || Boolean(groups[0]?.name);
  const sizes = groups.map(({ places }) => ({ cards: places.length, tiles: Math.max(1, ...places.map(({ boards }) => boards.filter(hasCapacity).length)) }));
  const small = groups.some(({ places }) => places.some(({ boards }) => !boards.every(hasCapacity)));
  const found = arrange(sizes, { ...room, framed, small, zoom });
  const style = { "--frames": found.frames, "--across": found.across, "--columns": found.columns, "--row": `${found.row}px` };
  const keys = (event) => pressed(event, { zoom, setZoom, choose });
  let index = 0;
  return html`<div class="frames" ref=${ref} style=${style} data-size=${found.size} role="group" aria-label="Nodes. Arrow keys go from device to device, plus and minus zoom, 0 fits the page." onKeyDown=${keys}>
    ${groups.map(({ name, places }) => html`<section class=${framed ? "group" : ""} key=${name}>
      ${framed && html`<h2>${name || "(none)"} <small>${summary(places)}</small></h2>`}
      <div class="cards">${places.map(({ node, boards }) => html`<${Card} key=${node.name} node=${node} boards=${boards} heading=${framed ? "h3" : "h2"} tile=${(board) => html`<${Tile} key=${board.key} board=${board} text=${describe(board)} chosen=${board.key === selected} colour=${colour} choose=${choose} index=${index++} />`} />`)}</div>
    </section>`)}</div>`;
}

function Card({ node, boards, heading, tile }) {
  const large = boards.filter(hasCapacity);
  const small = boards.filter((board) => !hasCapacity(board));
  const used = large.filter(({ state }) => state === "used" || state === "waiting").length;
  return html`<article class=${`node${node.ready ? "" : " away"}`} aria-label=${node.name}>
    <header><${heading} class="title"><${Link} to=${`fleet/${node.name}`}>${node.name}<//><//>
      ${!node.ready && html`<span class="chip unhealthy">not ready</span>`}${node.cordoned && html`<span class="chip tainted">cordoned</span>`}
      <small title="devices in use">${large.length ? `${used}/${large.length}` : "no device"}</small></header>
    ${large.length > 0 && html`<div class="tiles">${large.map(tile)}</div>`}
    ${small.length > 0 && html`<div class="extras">${small.map(tile)}</div>`}
  </article>`;
}

function summary(places) {
  const boards = places.flatMap((place) => place.boards).filter(hasCapacity);
  const used = boards.filter(({ state }) => state === "used" || state === "waiting").length;
  return `${places.length} ${places.length === 1 ? "node" : "nodes"} · ${boards.length} ${boards.length === 1 ? "device" : "devices"} · ${used} used`;
}

/** The width of the cards, and the height that the window leaves for them. */
function useRoom(ref) {
  const [room, setRoom] = useState({ width: Math.max(300, innerWidth - 32), height: Math.max(LEAST, innerHeight - 240) });
  useEffect(() => {
    const measure = () => {
      // The page may have been left meanwhile.
      if (!ref.current) return;
      const width = ref.current.clientWidth;
      const height = Math.max(LEAST, innerHeight - ref.current.getBoundingClientRect().top - scrollY - BELOW);
      setRoom((last) => (last.width === width && last.height === height ? last : { width, height }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, []);
  return room;
}

function pressed(event, { zoom, setZoom, choose }) {
  const actions = {
    "+": () => setZoom(zoom * FACTOR),
    "=": () => setZoom(zoom * FACTOR),
    "-": () => setZoom(zoom / FACTOR),
    0: () => setZoom(1),
    Escape: () => choose(""),
    ArrowRight: () => step(event, 1),
    ArrowLeft: () => step(event, -1),
    ArrowDown: () => step(event, 1, true),
    ArrowUp: () => step(event, -1, true),
  };
  if (!(event.key in actions) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  actions[event.key]();
}

/** Move the focus to the next tile, or to the nearest one of the next row. */
function step(event, way, down = false) {
  const tiles = [...event.currentTarget.querySelectorAll(".tile")];
  const now = tiles.indexOf(event.target);
  if (now < 0) return tiles[0]?.focus();
  if (!down) return tiles[now + way]?.focus();
  const from = middle(tiles[now]);
  const beyond = tiles.filter((one) => way * (middle(one).y - from.y) > 4);
  const distance = (one) => Math.abs(middle(one).y - from.y) * 3 + Math.abs(middle(one).x - from.x);
  return beyond.sort((a, b) => distance(a) - distance(b))[0]?.focus();
}

function middle(element) {
  const { x, y, width, height } = element.getBoundingClientRect();
  return { x: x + width / 2, y: y + height / 2 };
}
