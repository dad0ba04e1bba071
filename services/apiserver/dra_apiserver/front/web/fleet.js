// The fleet as a picture shows it: nodes, their boards, and the state of each device. Pure: objects in, a picture out.
//
// A board is what a person would call a device of the machine: a device by itself, all devices that draw on one
// counter set, such as a GPU with its possible MIG devices, or the MIG devices into which a GPU has been cut.

import { quantity } from "./quantity.js";

export const STATES = ["free", "used", "waiting", "blocked", "tainted", "unhealthy"];
/** Of a board: something of it is left that no request could get. */
export const STRANDED = "stranded";
export const NO_NODE = "(no node)";
const SERIOUS = Object.fromEntries(STATES.map((state, index) => [state, index]));

/**
 * `{nodes, totals}`, with the number of boards by `states` and of those that are `stranded`; the arguments are maps of
 * what cluster.js keeps. Nodes of which nothing has changed are the same objects as before.
 */
export function fleet({ nodes, slices, claims, pods, rules }) {
  const held = heldBy(claims, pods);
  const reported = healthOf(claims, pods);
  const about = (slice) => ({
    held: held.get(poolOf(slice)) ?? NONE,
    reports: reported.get(poolOf(slice)) ?? NONE,
    rules: rules.size ? [...rules.values()].filter(({ deviceSelector }) => selects(deviceSelector, slice, deviceSelector?.device)) : NONE,
  });
  const boards = new Map([...nodes.values()].map(({ name }) => [name, NONE]));
  const partitions = [];
  for (const slice of newest(slices)) {
    const found = looked(slice, about(slice));
    for (const [node, ones] of found.boards) join(boards, node, ones);
    for (const device of found.partitions) partitions.push(device);
  }
  for (const [node, ones] of partitioned(partitions, countersOf(slices))) join(boards, node, ones);
  const sorted = byName([...boards].map(([name, ones]) => withBoards(nodes.get(name) ?? unknownNode(name), ones)), nodeRanks);
  return { nodes: sorted, totals: totals(sorted) };
}

/** Most nodes have one slice, whose boards are taken as they are. */
function join(boards, node, more) {
  const known = boards.get(node);
  boards.set(node, known?.length ? byName([...known, ...more], boardRanks) : more);
}

// By what is kept of a node.
const shown = new WeakMap();

function withBoards(node, boards) {
  let known = shown.get(node);
  if (!known || !same(known.boards, boards)) shown.set(node, (known = { ...node, boards }));
  return known;
}

/** Compares names with numbers by their value: `node-2` before `node-10`. */
export const natural = new Intl.Collator("en", { numeric: true }).compare;

// Names are compared once, not whenever something changes: the collator takes longer than all the rest.
const nodeRanks = new Map();
const boardRanks = new Map();

/** The objects in the natural order of their names; `ranks` keeps what is known of that order. */
function byName(objects, ranks) {
  if (objects.some(({ name }) => !ranks.has(name))) {
    const fresh = objects.filter(({ name }) => !ranks.has(name));
    const names = [...new Set([...ranks.keys(), ...fresh.map(({ name }) => name)])].sort(natural);
    ranks.clear();
    names.forEach((name, rank) => ranks.set(name, rank));
  }
  const inOrder = objects.every(({ name }, index) => !index || ranks.get(objects[index - 1].name) <= ranks.get(name));
  return inOrder ? objects : objects.sort((a, b) => ranks.get(a.name) - ranks.get(b.name));
}

// Nodes that slices name and that are not there.
const unknown = new Map();

function unknownNode(name) {
  if (!unknown.has(name)) unknown.set(name, { name, labels: {}, ready: name === NO_NODE, cordoned: false, taints: [] });
  return unknown.get(name);
}

// A slice's pool, as `driver/pool`.
const pools = new WeakMap();

function poolOf(slice) {
  let name = pools.get(slice);
  if (!name) pools.set(slice, (name = `${slice.driver}/${slice.pool.name}`));
  return name;
}

/** The slices of each pool's newest generation, as the scheduler takes them. */
function* newest(slices) {
  const generations = new Map();
  for (const slice of slices.values()) {
    const generation = slice.pool.generation ?? 0;
    if (generation >= (generations.get(poolOf(slice)) ?? 0)) generations.set(poolOf(slice), generation);
  }
  for (const slice of slices.values()) {
    if ((slice.pool.generation ?? 0) === generations.get(poolOf(slice))) yield slice;
  }
}

const NONE = [];
const NO_VALUES = {};
const same = (a, b) => a === b || (a.length === b.length && a.every((one, index) => one === b[index]));

// How each slice looked last, and what was known of it: `{about, found}`.
const looks = new WeakMap();

/** `{boards, partitions}`: the boards of a slice's devices by node, and its devices that draw on counters, which make boards together. */
function looked(slice, about) {
  const last = looks.get(slice);
  if (last && same(last.about.held, about.held) && same(last.about.rules, about.rules) && same(last.about.reports, about.reports)) {
    // Partitions are blocked by what their neighbours hold, which may have changed.
    for (const device of last.found.partitions) if (device.state === "blocked") device.state = "free";
    return last.found;
  }
  const found = look(slice, about);
  looks.set(slice, { about, found });
  return found;
}

function look(slice, about) {
  const nodes = new Map();
  const partitions = [];
  for (const one of slice.devices ?? NONE) {
    const made = device(slice, one, about);
    if (made.consumes.length) partitions.push(made);
    else if (nodes.has(made.node)) nodes.get(made.node).push(alone(made));
    else nodes.set(made.node, [alone(made)]);
  }
  return { boards: [...nodes].map(([node, boards]) => [node, byName(boards, boardRanks)]), partitions };
}

function device(slice, found, about) {
  const key = `${poolOf(slice)}/${found.name}`;
  const held = about.held.length ? about.held.filter((one) => one.key === key).map((one) => one.holder) : NONE;
  const rules = about.rules.filter((rule) => selects(rule.deviceSelector, slice, found.name));
  const taints = found.taints || rules.length ? [...(found.taints ?? NONE), ...rules.map((rule) => ({ ...rule.taint, rule: rule.name }))] : NONE;
  const reported = about.reports.length ? worst(about.reports, key) : "";
  return built(key, slice, found, { held, taints, reported });
}

function built(key, slice, found, { held, taints, reported }) {
  return {
    key,
    node: slice.nodeName ?? found.nodeName ?? NO_NODE,
    driver: slice.driver,
    pool: slice.pool.name,
    name: found.name,
    attributes: found.attributes ?? NO_VALUES,
    capacity: found.capacity ?? NO_VALUES,
    shared: found.allowMultipleAllocations === true,
    consumes: found.consumesCounters ?? cutFrom(found) ?? NONE,
    holders: held,
    taints,
    health: reported,
    state: state(held, taints, reported),
  };
}

// NVIDIA's driver publishes a MIG device that exists with its GPU's UUID, and its places as capacities.
const SLOT = /^memorySlice\d+$/;

/** Return what a MIG device takes of its GPU, as if the GPU had a counter for each place; undefined for other devices. */
function cutFrom({ name, attributes, capacity }) {
  if (!attributes?.parentUUID) return undefined;
  const counters = Object.fromEntries(Object.entries(capacity ?? NO_VALUES).filter(([key]) => SLOT.test(key)));
  return [{ counterSet: name.split("-mig")[0], counters }];
}

function state(held, taints, health) {
  if (health === "Unhealthy") return "unhealthy";
  if (taints.some((taint) => taint.effect !== "None")) return "tainted";
  if (!held.length) return "free";
  return held.some((holder) => holder.running) ? "used" : "waiting";
}

function selects(selector, slice, device) {
  const is = (wanted, have) => wanted === undefined || wanted === have;
  return (
    is(selector?.driver, slice.driver) && is(selector?.pool, slice.pool.name) && is(selector?.device, device)
  );
}

/** By pool what claims hold there. */
function heldBy(claims, pods) {
  const found = new Map();
  for (const claim of claims.values()) {
    for (const one of holdingsOf(claim, pods)) append(found, one.pool, one);
  }
  return found;
}

function append(lists, key, one) {
  const list = lists.get(key);
  if (list) list.push(one);
  else lists.set(key, [one]);
}

// What a claim holds stays the same until the claim changes, or its pods begin or cease to run.
const holdings = new WeakMap();

function holdingsOf(claim, pods) {
  const running = claim.pods.some((name) => pods.get(`${claim.namespace}/${name}`)?.phase === "Running");
  const known = holdings.get(claim);
  if (known?.running === running) return known.found;
  // Administrators look at a device; they don't take it.
  const taken = claim.results.filter((result) => !result.adminAccess);
  const found = taken.map(({ driver, pool, device, request, consumedCapacity }) => ({
    key: `${driver}/${pool}/${device}`,
    pool: `${driver}/${pool}`,
    holder: { claim: claim.key, namespace: claim.namespace, request, pods: claim.pods, consumed: consumedCapacity ?? NO_VALUES, running },
  }));
  holdings.set(claim, { running, found });
  return found;
}

/** By pool what pods' statuses report of the devices of their claims, as `DEVICE HEALTH`. */
function healthOf(claims, pods) {
  const found = new Map();
  for (const claim of claims.values()) {
    for (const name of claim.pods) {
      for (const status of pods.get(`${claim.namespace}/${name}`)?.statuses ?? NONE) {
        for (const { resources } of status.allocatedResourcesStatus ?? NONE) {
          for (const { resourceID, health } of resources ?? NONE) note(found, claim, resourceID, health);
        }
      }
    }
  }
  return found;
}

function note(found, claim, id, health) {
  for (const result of claim.results) {
    const pool = `${result.driver}/${result.pool}`;
    const key = `${pool}/${result.device}`;
    // An id is `driver/pool/device`, or the claim's uid before the device's name with a simulated driver.
    if (id === key || id.endsWith(`-${result.device}`)) append(found, pool, `${key} ${health}`);
  }
}

/** The health that is reported of a device: unhealthy, if one pod says so. */
function worst(reports, key) {
  const found = reports.filter((one) => one.startsWith(`${key} `)).map((one) => one.slice(key.length + 1));
  return found.includes("Unhealthy") ? "Unhealthy" : (found.at(-1) ?? "");
}

/** `driver/pool/set` -> `{counter: total}` of all slices. */
function countersOf(slices) {
  const found = new Map();
  for (const { driver, pool, sharedCounters } of slices.values()) {
    for (const set of sharedCounters ?? []) {
      const totals = Object.entries(set.counters).map(([name, counter]) => [name, quantity(counter.value)]);
      found.set(`${driver}/${pool.name}/${set.name}`, Object.fromEntries(totals));
    }
  }
  return found;
}

/** The board of a device by itself. */
function alone(one) {
  const { key, node, driver, pool, name, state } = one;
  return { key, node, driver, pool, name, state, levels: NO_VALUES, fill: filled(one), devices: [one], stranded: restIsTooSmall(one) };
}

/** By node the boards of devices that draw on counters. */
function partitioned(devices, counters) {
  const sets = new Map();
  for (const one of devices) append(sets, `${one.driver}/${one.pool}/${one.consumes[0].counterSet}`, one);
  const nodes = new Map();
  for (const [key, members] of sets) append(nodes, members[0].node, sharing(key, members, counters.get(key) ?? placesOf(members)));
  for (const boards of nodes.values()) byName(boards, boardRanks);
  return nodes;
}

/** The highest share of a board's counters that is taken. Counters that differ in a number only, such as memory slices, count as one. */
function fullest(levels) {
  const series = new Map();
  for (const [name, { used, total }] of Object.entries(levels)) {
    const stem = name.replace(/\d+$/, "");
    const sum = series.get(stem) ?? { used: 0, total: 0 };
    series.set(stem, { used: sum.used + used, total: sum.total + total });
  }
  return Math.max(0, ...[...series.values()].map(({ used, total }) => used / (total || 1)));
}

/** The places that the MIG devices of a GPU take, one unit each. */
const placesOf = (members) =>
  Object.fromEntries(members.flatMap((one) => Object.keys(one.consumes[0].counters ?? NO_VALUES)).map((name) => [name, 1]));

const common = ({ node, driver, pool }) => ({ node, driver, pool, levels: {} });

/** The share of a device that is taken: of a shared one its fullest capacity, else all or nothing. */
function filled(one) {
  if (!one.holders.length) return 0;
  if (!one.shared) return 1;
  const shares = Object.entries(one.capacity).map(([name, { value }]) => {
    const taken = one.holders.reduce((sum, holder) => sum + quantity(holder.consumed[name] ?? "0"), 0);
    return taken / (quantity(value) || 1);
  });
  return Math.min(1, Math.max(0, ...shares));
}

/** Whether what is left of a shared device is less than the smallest share of one of its capacities. */
function restIsTooSmall(one) {
  if (!one.shared || !one.holders.length) return false;
  let left = false;
  let tooSmall = false;
  for (const [name, { value, requestPolicy }] of Object.entries(one.capacity)) {
    const taken = one.holders.reduce((sum, holder) => sum + quantity(holder.consumed[name] ?? "0"), 0);
    const rest = quantity(value) - taken;
    if (rest > 0) left = true;
    if (rest < smallest(requestPolicy)) tooSmall = true;
  }
  return left && tooSmall;
}

/** The least that a request can take of a capacity. */
function smallest(policy) {
  if (policy?.validRange?.min !== undefined) return quantity(policy.validRange.min);
  const values = (policy?.validValues ?? []).map(quantity);
  return values.length ? Math.min(...values) : 0;
}

/** The end of a counter set's name that does not name a device: "gpu-0-counter-set". */
const COUNTERS = /-counter(s|-set)?$/;

/** The board of devices that draw on one counter set. */
function sharing(key, members, totals) {
  const levels = Object.fromEntries(Object.entries(totals).map(([name, total]) => [name, { total, used: 0 }]));
  for (const one of members.filter((member) => member.holders.length)) {
    for (const [name, { value }] of Object.entries(one.consumes[0].counters ?? {})) {
      if (levels[name]) levels[name].used += quantity(value);
    }
  }
  const fits = (one) =>
    Object.entries(one.consumes[0].counters ?? {}).every(
      ([name, { value }]) => !levels[name] || levels[name].used + quantity(value) <= levels[name].total,
    );
  for (const one of members) if (one.state === "free" && !fits(one)) one.state = "blocked";
  const held = members.filter((one) => one.holders.length);
  const fill = fullest(levels);
  const worst = (held.length ? held : members).reduce((a, b) => (SERIOUS[b.state] > SERIOUS[a.state] ? b : a));
  const devices = members.sort((a, b) => natural(a.name, b.name));
  const anyFree = devices.some((one) => one.state === "free");
  const state = held.length ? worst.state : anyFree ? "free" : worst.state;
  // Counters are left, and yet no partition that is free fits into them.
  const stranded = held.length > 0 && !anyFree && Object.values(levels).some(({ used, total }) => used < total);
  const name = key.split("/").pop().replace(COUNTERS, "");
  return { ...common(members[0]), key, name, state, fill: Math.min(1, fill), levels, devices, stranded };
}

// By a node's boards, which are the same list while none of them changes.
const counted = new WeakMap();

function countsOf(boards) {
  let counts = counted.get(boards);
  if (counts) return counts;
  counts = { states: {}, stranded: 0 };
  for (const board of boards) {
    counts.states[board.state] = (counts.states[board.state] ?? 0) + 1;
    if (board.stranded) counts.stranded += 1;
  }
  counted.set(boards, counts);
  return counts;
}

function totals(nodes) {
  const found = Object.fromEntries(STATES.map((state) => [state, 0]));
  let stranded = 0;
  for (const { boards } of nodes) {
    const counts = countsOf(boards);
    for (const state in counts.states) found[state] += counts.states[state];
    stranded += counts.stranded;
  }
  return { states: found, stranded };
}
