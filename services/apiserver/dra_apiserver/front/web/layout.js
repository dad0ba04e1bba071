// Where each node and board stands in the picture. Pure; one unit is a board's width.

import { natural } from "./fleet.js";

const MOST_COLUMNS = 8;
const GAP = 0.5;
const LABEL = 0.5;
/** The least height of a frame's heading, in units and in pixels. */
const HEADING = 1.2;
const LEGIBLE = 20;
/** The space between a frame and the nodes in it, and between frames. */
const INSET = 0.5;
const BETWEEN = 0.7;
/** Numbers of nodes in a row that are tried grow by this factor. */
const GROWTH = 1.15;
const MOST_ACROSS = 2000;

/**
 * `{places, groups, frames, width, height, block}`: a place is `{node, x, y, boards}` and the boards of it that are shown. Nodes with the
 * same `group(node)` stand together in a frame, below its name, by their names or else by their first nodes; of boards those are there that are `shown(board, node)`; `size` is
 * the picture's `{width, height}` in pixels, which rows and frames fill as well as they can.
 */
export function layout(nodes, { group = () => "", sorted = true, shown, size = { width: 1600, height: 1000 } } = {}) {
  const all = nodes.map((node) => ({ node, boards: shown ? node.boards.filter((board) => shown(board, node)) : node.boards }));
  const visible = shown ? all.filter(({ node, boards }) => boards.length || (!node.boards.length && shown(null, node))) : all;
  const most = visible.reduce((sum, { boards }) => Math.max(sum, boards.length), 1);
  const members = grouped(visible, group, sorted);
  const framed = members.length > 1 || Boolean(members[0]?.[0]);
  const found = fitted(members.map(([, ones]) => ones.length), most, framed, size);
  return { ...placed(members, found, framed), block: found.block, label: LABEL };
}

function placed(members, { block, across, beside, width, heading }, framed) {
  const inset = framed ? INSET : 0;
  const [places, frames, groups] = [[], [], []];
  let [y, lowest] = [0, 0];
  members.forEach(([name, ones], index) => {
    const column = index % beside;
    if (!column) y = index ? lowest + BETWEEN : 0;
    const left = column * (frameWidth(block, across, framed) + BETWEEN);
    const top = y + inset + (framed ? heading : 0);
    const mine = ones.map(({ node, boards }, at) => ({
      node,
      boards,
      x: left + inset + (at % across) * block.width,
      y: top + Math.floor(at / across) * block.height,
    }));
    for (const place of mine) places.push(place);
    groups.push({ name, places: mine });
    const height = top + Math.ceil(ones.length / across) * block.height + inset - y;
    if (framed) frames.push({ name, count: ones.length, x: left, y, width: frameWidth(block, across, framed), height, heading });
    lowest = Math.max(lowest, y + height);
  });
  return { places, groups, frames, width, height: lowest };
}

const frameWidth = (block, across, framed) => across * block.width - (framed ? GAP : 0) + (framed ? 2 * INSET : 0);

// The last answer: most changes leave all nodes where they are.
let last = { key: "", found: undefined };

/** Return how many boards, nodes and frames stand in a row, so that the picture is as large as it can be. */
function fitted(sizes, most, framed, size) {
  const key = JSON.stringify([sizes, most, framed, size]);
  if (last.key !== key) {
    let found = search({ sizes, most, framed, size, heading: HEADING });
    // Where boards are small, a heading takes more of them.
    if (framed && found.scale * HEADING < LEGIBLE) found = search({ sizes, most, framed, size, heading: LEGIBLE / found.scale });
    last = { key, found };
  }
  return last.found;
}

function search(about) {
  const { sizes, most } = about;
  const largest = Math.max(1, ...sizes);
  let found = { scale: 0 };
  const attempt = (columns, beside, across) => {
    const one = scaled(about, columns, beside, across);
    if (one.scale > found.scale * 1.01) found = one;
  };
  for (const columns of new Set([1, 2, 4, MOST_COLUMNS, most].filter((one) => one <= Math.min(most, MOST_COLUMNS)))) {
    for (const beside of steps(Math.max(1, sizes.length))) {
      for (const across of steps(Math.min(MOST_ACROSS, largest))) attempt(columns, beside, across);
    }
  }
  const { block, beside, across } = found;
  for (let near = Math.floor(across / GROWTH); near <= Math.min(largest, across * GROWTH); near += 1) attempt(block.columns, beside, Math.max(1, near));
  return found;
}

/** Return an arrangement with its `scale`, the pixels that a board would have. */
function scaled({ sizes, most, framed, size, heading }, columns, beside, across) {
  const block = { columns, width: columns + GAP, height: Math.ceil(most / columns) + LABEL + GAP };
  const width = beside * (frameWidth(block, across, framed) + BETWEEN) - BETWEEN;
  const height = heightOf(sizes, block, across, beside, framed ? heading + 2 * INSET : 0);
  return { block, across, beside, width, heading, scale: Math.min(size.width / width, size.height / height) };
}

/** 1, 2, 3 and so on, in steps that grow. */
function steps(most) {
  const found = [];
  for (let one = 1; one <= most; one = Math.max(one + 1, Math.floor(one * GROWTH))) found.push(one);
  return found;
}

function heightOf(sizes, block, across, beside, frame) {
  let height = -BETWEEN;
  for (let first = 0; first < sizes.length; first += beside) {
    let rows = 1;
    for (let at = first; at < Math.min(sizes.length, first + beside); at += 1) rows = Math.max(rows, Math.ceil(sizes[at] / across));
    height += rows * block.height + frame + BETWEEN;
  }
  return Math.max(height, block.height);
}

function grouped(visible, group, sorted) {
  const found = new Map();
  for (const member of visible) {
    const name = group(member.node);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(member);
  }
  return sorted ? [...found].sort(([a], [b]) => natural(a, b)) : [...found];
}

/** Where a board of a place is. */
export function corner(place, index, { block, label }) {
  return { x: place.x + (index % block.columns), y: place.y + label + Math.floor(index / block.columns) };
}

/** The place and board at a point, or undefined. */
export function at({ x, y }, plan) {
  const place = plan.places.find(
    (one) => x >= one.x && x < one.x + plan.block.width && y >= one.y && y < one.y + plan.block.height,
  );
  if (!place) return undefined;
  const column = Math.floor(x - place.x);
  const row = Math.floor(y - place.y - plan.label);
  const index = row * plan.block.columns + column;
  const inside = row >= 0 && column < plan.block.columns;
  return { place, index: inside && place.boards[index] ? index : -1 };
}
