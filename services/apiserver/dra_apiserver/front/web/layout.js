// Where each node and board stands in the picture. Pure; one unit is a board's width.

import { natural } from "./fleet.js";

const MOST_COLUMNS = 8;
const GAP = 0.7;
const LABEL = 0.9;
const HEADING = 1.4;

/**
 * `{places, width, height, block}`: a place is `{node, x, y, boards}` and the boards of it that are shown. Nodes with the
 * same `group(node)` stand together, below its name; of boards those are there that are `shown(board, node)`; `aspect` is the picture's width by its height.
 */
export function layout(nodes, { group = () => "", shown, aspect = 1.6 } = {}) {
  const all = nodes.map((node) => ({ node, boards: shown ? node.boards.filter((board) => shown(board, node)) : node.boards }));
  const visible = shown ? all.filter(({ node, boards }) => boards.length || (!node.boards.length && shown(null, node))) : all;
  const most = visible.reduce((sum, { boards }) => Math.max(sum, boards.length), 1);
  const columns = Math.min(most, MOST_COLUMNS);
  const block = { columns, width: columns + GAP, height: Math.ceil(most / columns) + LABEL + GAP };
  const area = visible.length * block.width * block.height;
  const across = Math.max(1, Math.round(Math.sqrt(area * aspect) / block.width));
  const groups = grouped(visible, group);
  const places = [];
  const headings = [];
  let y = 0;
  for (const [name, members] of groups) {
    if (groups.length > 1 || name) {
      headings.push({ name, x: 0, y, count: members.length });
      y += HEADING;
    }
    members.forEach(({ node, boards }, index) => {
      const x = (index % across) * block.width;
      places.push({ node, boards, x, y: y + Math.floor(index / across) * block.height });
    });
    y += Math.ceil(members.length / across) * block.height;
  }
  return { places, headings, block, width: Math.min(across, visible.length || 1) * block.width, height: y, label: LABEL };
}

function grouped(visible, group) {
  const found = new Map();
  for (const member of visible) {
    const name = group(member.node);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(member);
  }
  return [...found].sort(([a], [b]) => natural(a, b));
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
