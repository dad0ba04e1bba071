// What a board consists of, for who looks closely: the placements of a partitioned GPU, and the shares of a shared device. Pure.

import { natural } from "./fleet.js";
import { quantity, readable } from "./quantity.js";

// Counters such as memory-slice-0 to memory-slice-7 are places in a row.
const NUMBERED = /^(.*?)(\d+)$/;

/**
 * `{name, note, board, x, y, width, height}`: `board` is what is coloured; the rest are parts of the board's own width and
 * height, from its upper left corner. A device that is had whole is the only part.
 */
export function details(board) {
  const [first] = board.devices;
  if (first?.consumes.length) return shortened(placements(board));
  if (first?.shared && first.holders.length) return shares(board, first);
  return [{ name: board.name, note: holder(board), board, x: 0, y: 0, width: 1, height: 1 }];
}

/** Who holds a board, in a word: a pod, or a claim; else its state. */
function holder({ devices, state }) {
  const [first] = devices.flatMap((device) => device.holders);
  return first ? (first.pods[0] ?? first.claim) : state;
}

/** Of `gpu-0-mig-1g10gb` next to `gpu-0` the name is `mig-1g10gb`. */
function shortened(parts) {
  const [least = ""] = parts.map(({ name }) => name).sort((a, b) => a.length - b.length);
  return parts.map((part) => (part.name.startsWith(`${least}-`) ? { ...part, name: part.name.slice(least.length + 1) } : part));
}

/** The number of equal places that a partitioned board has; 0 if its counters are not numbered. */
export const placeCount = (board) => placesOf(Object.keys(board.levels)).size;

/** `{device, from, to}` of each partition of a board, in shares of its width. */
export function spans(board) {
  const places = placesOf(Object.keys(board.levels));
  const size = places.size || 1;
  return board.devices.map((device) => {
    const { from, to } = span(device, places);
    return { device, from: from / size, to: (places.size ? to : 1) / size };
  });
}

/** Each partition where its counters are; those of a size stand in a row, the largest above. Without such counters, cell by cell. */
function placements(board) {
  const places = placesOf(Object.keys(board.levels));
  const found = board.devices.map((device) => ({ device, ...span(device, places) }));
  if (places.size < 2) return cells(found.map(({ device }) => device));
  found.sort((a, b) => b.to - b.from - (a.to - a.from) || natural(a.device.name, b.device.name));
  const rows = [];
  for (const one of found) {
    const row = rows.find((row) => row.size === one.to - one.from && row.every(({ from, to }) => to <= one.from || one.to <= from));
    if (row) row.push(one);
    else rows.push(Object.assign([one], { size: one.to - one.from }));
  }
  return rows.flatMap((row, index) =>
    row.map(({ device, from, to }) => ({
      ...part(device),
      x: from / places.size,
      width: (to - from) / places.size,
      y: index / rows.length,
      height: 1 / rows.length,
    })),
  );
}

/** By counter its place, of the longest series of numbered counters. */
function placesOf(counters) {
  const series = new Map();
  for (const name of counters) {
    const [, stem, number] = NUMBERED.exec(name) ?? [];
    if (stem === undefined) continue;
    if (!series.has(stem)) series.set(stem, []);
    series.get(stem).push([name, Number(number)]);
  }
  const [longest = []] = [...series.values()].sort((a, b) => b.length - a.length);
  return new Map(longest.sort(([, a], [, b]) => a - b).map(([name], index) => [name, index]));
}

/** The places of a device; of one that takes none, all. */
function span(device, places) {
  const counters = Object.entries(device.consumes[0].counters ?? {}).filter(([, { value }]) => quantity(value) > 0);
  const taken = counters.map(([name]) => places.get(name)).filter((place) => place !== undefined);
  return taken.length ? { from: Math.min(...taken), to: Math.max(...taken) + 1 } : { from: 0, to: places.size };
}

function cells(devices) {
  const columns = Math.ceil(Math.sqrt(devices.length));
  const rows = Math.ceil(devices.length / columns);
  return devices.map((device, index) => ({
    ...part(device),
    x: (index % columns) / columns,
    width: 1 / columns,
    y: Math.floor(index / columns) / rows,
    height: 1 / rows,
  }));
}

const part = (device) => ({
  name: device.name,
  note: holder({ devices: [device], state: device.state }),
  board: { node: device.node, state: device.state, fill: device.holders.length ? 1 : 0, stranded: false, devices: [device] },
});

/** The device, and on it each claim's share of the capacity that is taken most, from below; what is above is left. */
function shares(board, device) {
  const taken = (name) => device.holders.reduce((sum, holder) => sum + quantity(holder.consumed[name] ?? "0"), 0);
  const total = (name) => quantity(device.capacity[name].value) || 1;
  const [name] = Object.keys(device.capacity).sort((a, b) => taken(b) / total(b) - taken(a) / total(a));
  if (!name) return [];
  let y = 1;
  const left = readable(total(name) - taken(name));
  const parts = device.holders.map((holder) => {
    const height = quantity(holder.consumed[name] ?? "0") / total(name);
    y -= height;
    const taken = { ...board, fill: 1, devices: [{ ...device, holders: [holder] }] };
    return { name: `${holder.consumed[name] ?? "0"} of ${name}`, note: holder.pods[0] ?? holder.claim, board: taken, x: 0, width: 1, y, height };
  });
  const whole = { name: device.name, note: `${left} of ${name} left`, board: { ...board, fill: 0 }, x: 0, width: 1, y: 0, height: 1 };
  return [whole, ...parts];
}
