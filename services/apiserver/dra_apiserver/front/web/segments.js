// What a tile shows of a board: the model, the size of its memory, and who has which part of it. Pure.

import { placeCount, spans } from "./details.js";
import { quantity, readable } from "./quantity.js";

// Attributes in which drivers publish the model of a device, as the scheduler's report of free devices reads them.
const MODEL = ["productName", "model", "product", "type"];
const VENDOR = /^(NVIDIA|AMD|Intel|Google) +/;

/** The model of a board, such as "NVIDIA H100 80GB HBM3"; empty if its driver publishes none. */
export function modelOf({ devices: [first] }) {
  const name = MODEL.find((one) => first?.attributes[one]);
  return name ? String(Object.values(first.attributes[name])[0]) : "";
}

/** A model without its vendor. */
export const short = (model) => model.replace(VENDOR, "");

/** True if the board has memory or another amount of something. Channels and daemons of a compute domain have none. */
export const hasCapacity = ({ devices }) => devices.some((one) => Object.keys(one.capacity).length > 0 || one.consumes.length > 0);

/** The memory of a board as text, such as "80Gi": that of its counters, its whole device, or its parts together. */
export function memoryOf({ devices, levels }) {
  if (levels.memory) return amount(levels.memory.total);
  return amount(devices.reduce((sum, { capacity }) => sum + quantity(capacity.memory?.value ?? "0"), 0));
}

const GIB = 2 ** 30;
const amount = (size) => (size ? (size >= GIB ? `${Math.round(size / GIB)}Gi` : readable(size)) : "");

/** Who holds something: its pod, or its claim, and their namespace. */
const owned = ({ pods, claim, namespace }) => ({ owner: pods[0] ?? claim.split("/").pop(), namespace });

/** `{from, to, label, owner, namespace, state}` of each part of a board that is held, in shares of its width. */
export function segments(board) {
  const [first] = board.devices;
  if (!first) return [];
  if (first.consumes.length) return spans(board).filter(({ device }) => device.holders.length).map(({ device, from, to }) => ({ from, to, label: partName(device), ...owned(device.holders[0]), state: device.state }));
  if (!first.holders.length) return [];
  if (!first.shared) return [{ from: 0, to: 1, label: "", ...owned(first.holders[0]), state: board.state }];
  return shares(board, first);
}

/** The name of a partition: its profile, or nothing for a device that is had whole. */
const partName = ({ attributes }) => String(Object.values(attributes.profile ?? { none: "" })[0]);

/** The shares of a device side by side: of its memory, or of the capacity of which most is taken. */
function shares(board, device) {
  const name = device.capacity.memory ? "memory" : fullest(device);
  if (!name) return [];
  const total = quantity(device.capacity[name].value) || 1;
  let from = 0;
  return device.holders.map((holder) => {
    const label = holder.consumed[name] ?? "0";
    const to = Math.min(1, from + quantity(label) / total);
    const one = { from, to, label, ...owned(holder), state: holder.running ? "used" : "waiting" };
    from = to;
    return board.state === "used" || board.state === "waiting" ? one : { ...one, state: board.state };
  });
}

/** The capacity of a shared device of which the largest share is taken. */
function fullest(device) {
  const taken = (name) => device.holders.reduce((sum, holder) => sum + quantity(holder.consumed[name] ?? "0"), 0);
  const level = (name) => taken(name) / (quantity(device.capacity[name].value) || 1);
  return Object.keys(device.capacity).sort((a, b) => level(b) - level(a))[0];
}

/** How many equal places a cut GPU has; 0 for other boards. */
export const placesOf = (board) => (board.devices[0]?.consumes.length ? placeCount(board) : 0);
