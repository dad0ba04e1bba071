// Of the fleet page: how nodes are grouped, coloured and filtered, and the board that was chosen.

import { computed, signal } from "@preact/signals";
import { classesOf, selections } from "./classes.js";
import { nodes, slices, world } from "./cluster.js";
import { ownValues } from "./colours.js";
import { STRANDED } from "./fleet.js";
import { layout } from "./layout.js";
import { param, turn } from "./links.js";
import { hasCapacity, modelOf, short } from "./segments.js";

const ZONE = "topology.kubernetes.io/zone";

// All of them are in the address: a link shares the picture, and the back button undoes a choice.
export const selected = param("device");
export const group = param("group");
export const colour = param("colour", "state");
export const filter = param("q");
export const state = param("state");
export const ofClass = param("class");
/** How the fleet is drawn: "cards", "map", or empty for what suits its size. */
export const drawn = param("as");
// In place of a class's name: devices that no class selects.
export const NO_CLASS = "(none)";
// What boards have besides attributes.
export const OWN = ["class", "namespace", "driver", "pool"];

export const attributes = computed(() => {
  const found = new Set();
  for (const slice of slices.value) {
    for (const device of slice.devices ?? []) for (const name in device.attributes) found.add(name);
  }
  return [...found].sort();
});
export const labels = computed(() => {
  const found = new Set([ZONE]);
  for (const node of nodes.value) for (const name in node.labels) found.add(name);
  return [...found].sort();
});
const CLIQUE = "nvidia.com/gpu.clique";
/** The group that is chosen to have none. Without a choice, nodes stand by NVLink domain and model. */
export const NOTHING = "none";
/** The size of the picture in pixels. */
export const size = signal({ width: 1400, height: 700 });
const ownGroups = new WeakMap();

/** Return the NVLink domain of a node, or the models of its devices. */
function ownGroup(node) {
  if (!ownGroups.has(node)) {
    const [domain, clique] = (node.labels[CLIQUE] ?? "").split(".");
    const models = [...new Set(node.boards.filter(hasCapacity).map((board) => short(modelOf(board))))].sort().join(", ");
    ownGroups.set(node, domain ? `NVLink domain ${domain.slice(0, 8)}.${clique}` : models);
  }
  return ownGroups.get(node);
}

/** The groups that nodes have without a choice. Nodes of one model are no group, except in an NVLink domain. */
const byItself = computed(() => {
  const names = new Set(world.value.nodes.map(ownGroup));
  const plain = names.size < 2 && ![...names].some((name) => name.startsWith("NVLink"));
  return plain ? () => "" : ownGroup;
});

export const plan = computed(() => {
  const wanted = filter.value.trim().toLowerCase();
  const shown = (board, node) =>
    matches(board, node, wanted) &&
    (!state.value || (state.value === STRANDED ? board?.stranded : board?.state === state.value)) &&
    (!ofClass.value || selects(ofClass.value, board));
  return layout(world.value.nodes, {
    group: group.value === NOTHING ? () => "" : group.value ? (node) => groupOf(node, group.value) : byItself.value,
    sorted: group.value !== "",
    shown: wanted || state.value || ofClass.value ? shown : undefined,
    size: size.value,
  });
});
/** The boards in the order of the picture, for the keyboard and the table. */
export const boards = computed(() => plan.value.places.flatMap((place) => place.boards));
/** The board that was chosen. It stays when it changes so that the filter does not show it any more. */
export const chosen = computed(() => {
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

/** Shows a board's panel, or none. */
export function choose(key) {
  turn("fleet", { device: key });
}

/** One line about a board. */
export function describe(board) {
  if (!board) return "";
  const holders = [...new Set(board.devices.flatMap((device) => device.holders.map(({ claim }) => claim)))];
  const held = holders.length ? `, claim ${holders.slice(0, 3).join(", ")}` : "";
  return `${board.node} ${board.devices.length === 1 ? board.devices[0].name : board.name}: ${board.state}${board.fill > 0 && board.fill < 1 ? ` ${Math.round(board.fill * 100)} %` : ""}${held}`;
}
