// The fleet as a picture shows it: nodes, their boards, and the state of each device. Pure: objects in, a picture out.
//
// A board is what a person would call a device of the machine: a device by itself, or all devices that draw on one
// counter set, such as a GPU with its possible MIG devices.

import { quantity } from "./quantity.js";

export const STATES = ["free", "used", "waiting", "blocked", "tainted", "unhealthy"];
/** Of a board: something of it is left that no request could get. */
export const STRANDED = "stranded";
export const NO_NODE = "(no node)";
const SERIOUS = Object.fromEntries(STATES.map((state, index) => [state, index]));

/** `{nodes, totals}`, with the number of boards by `states` and of those that are `stranded`; the arguments are maps of what cluster.js keeps. */
export function fleet({ nodes, slices, claims, pods, rules }) {
  const holders = holdersOf(claims, pods);
  const health = healthOf(claims, pods);
  const about = { holders, health, taintRules: [...rules.values()] };
  const touched = new Set([...holders.keys(), ...health.keys()].map((key) => key.slice(0, key.lastIndexOf("/"))));
  const shown = new Map([...nodes.values()].map((node) => [node.name, { ...node, boards: [] }]));
  const add = (board) => {
    if (!shown.has(board.node)) shown.set(board.node, unknownNode(board.node));
    shown.get(board.node).boards.push(board);
  };
  const partitions = [];
  for (const slice of newest(slices)) {
    const quiet =
      !touched.has(`${slice.driver}/${slice.pool.name}`) &&
      !about.taintRules.some(({ deviceSelector }) => selects(deviceSelector, slice, { name: deviceSelector?.device }));
    const found = quiet ? atRest(slice) : looked(slice, about);
    for (const board of found.boards) add(board);
    for (const device of found.partitions) partitions.push(device);
  }
  for (const board of partitioned(partitions, countersOf(slices))) add(board);
  const sorted = byName([...shown.values()], nodeRanks);
  for (const node of sorted) node.boards = byName(node.boards, boardRanks);
  return { nodes: sorted, totals: totals(sorted) };
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

function unknownNode(name) {
  return { name, labels: {}, ready: name === NO_NODE, cordoned: false, taints: [], boards: [] };
}

/** The slices of each pool's newest generation, as the scheduler takes them. */
function* newest(slices) {
  const generations = new Map();
  for (const { driver, pool } of slices.values()) {
    const name = `${driver}/${pool.name}`;
    generations.set(name, Math.max(generations.get(name) ?? 0, pool.generation ?? 0));
  }
  for (const slice of slices.values()) {
    if ((slice.pool.generation ?? 0) !== generations.get(`${slice.driver}/${slice.pool.name}`)) continue;
    yield slice;
  }
}

// Slices of which no device is held, tainted by a rule or reported on look the same whenever they are looked at.
const resting = new WeakMap();
const NOTHING = { holders: new Map(), health: new Map(), taintRules: [] };

function atRest(slice) {
  let known = resting.get(slice);
  if (!known) {
    known = looked(slice, NOTHING);
    resting.set(slice, known);
  }
  // Partitions are blocked by what their neighbours hold, which may have changed.
  for (const device of known.partitions) if (device.state === "blocked") device.state = "free";
  return known;
}

/** The boards of a slice's devices, and its devices that draw on counters, which make boards together. */
function looked(slice, about) {
  const found = { boards: [], partitions: [] };
  for (const one of slice.devices ?? []) {
    const node = slice.nodeName ?? one.nodeName ?? NO_NODE;
    const key = untouched.get(one)?.key ?? `${slice.driver}/${slice.pool.name}/${one.name}`;
    const made = device(key, slice, one, node, about);
    if (made.consumes.length) found.partitions.push(made);
    else found.boards.push(untouched.get(one) === made ? untouchedBoard(made) : alone(made));
  }
  return found;
}

// Devices that nothing holds, taints by a rule or reports on are the same whenever they are looked at.
const untouched = new WeakMap();

function device(key, slice, found, node, { holders, health, taintRules }) {
  const held = holders.get(key) ?? [];
  const rules = taintRules.filter((rule) => selects(rule.deviceSelector, slice, found));
  const reported = health.get(key) ?? "";
  const plain = !held.length && !rules.length && !reported;
  const known = plain ? untouched.get(found) : undefined;
  if (known) {
    // Partitions are blocked by what their neighbours hold, which may have changed.
    if (known.state === "blocked") known.state = "free";
    return known;
  }
  const taints = [...(found.taints ?? []), ...rules.map((rule) => ({ ...rule.taint, rule: rule.name }))];
  const made = built(key, slice, found, node, { held, taints, reported });
  if (plain) untouched.set(found, made);
  return made;
}

function built(key, slice, found, node, { held, taints, reported }) {
  return {
    key,
    node,
    driver: slice.driver,
    pool: slice.pool.name,
    name: found.name,
    attributes: found.attributes ?? {},
    capacity: found.capacity ?? {},
    shared: found.allowMultipleAllocations === true,
    consumes: found.consumesCounters ?? [],
    holders: held,
    taints,
    health: reported,
    state: state(held, taints, reported),
  };
}

function state(held, taints, health) {
  if (health === "Unhealthy") return "unhealthy";
  if (taints.some((taint) => taint.effect !== "None")) return "tainted";
  if (!held.length) return "free";
  return held.some((holder) => holder.running) ? "used" : "waiting";
}

function selects(selector, slice, found) {
  const is = (wanted, have) => wanted === undefined || wanted === have;
  return (
    is(selector?.driver, slice.driver) && is(selector?.pool, slice.pool.name) && is(selector?.device, found.name)
  );
}

/** By device the claims that hold it, with their pods and what they take of its capacity. */
function holdersOf(claims, pods) {
  const found = new Map();
  for (const claim of claims.values()) {
    const running = claim.pods.some((name) => pods.get(`${claim.namespace}/${name}`)?.phase === "Running");
    for (const result of claim.results) {
      // Administrators look at a device; they don't take it.
      if (result.adminAccess) continue;
      const key = `${result.driver}/${result.pool}/${result.device}`;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push({
        claim: claim.key,
        namespace: claim.namespace,
        request: result.request,
        pods: claim.pods,
        consumed: result.consumedCapacity ?? {},
        running,
      });
    }
  }
  return found;
}

/** What pods' statuses report of the devices of their claims. */
function healthOf(claims, pods) {
  const found = new Map();
  for (const claim of claims.values()) {
    for (const name of claim.pods) {
      for (const status of pods.get(`${claim.namespace}/${name}`)?.statuses ?? []) {
        for (const { resources } of status.allocatedResourcesStatus ?? []) {
          for (const { resourceID, health } of resources ?? []) note(found, claim, resourceID, health);
        }
      }
    }
  }
  return found;
}

function note(found, claim, id, health) {
  for (const result of claim.results) {
    const key = `${result.driver}/${result.pool}/${result.device}`;
    // An id is `driver/pool/device`, or the claim's uid before the device's name with a simulated driver.
    if (id !== key && !id.endsWith(`-${result.device}`)) continue;
    if (found.get(key) !== "Unhealthy") found.set(key, health);
  }
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

// The boards of such devices.
const untouchedBoards = new WeakMap();

function untouchedBoard(one) {
  let board = untouchedBoards.get(one);
  if (!board) untouchedBoards.set(one, (board = alone(one)));
  return board;
}

/** The board of a device by itself. */
function alone(one) {
  const { key, node, driver, pool, name, state } = one;
  return { key, node, driver, pool, name, state, levels: {}, fill: filled(one), devices: [one], stranded: restIsTooSmall(one) };
}

function* partitioned(devices, counters) {
  const sets = new Map();
  for (const one of devices) {
    const key = `${one.driver}/${one.pool}/${one.consumes[0].counterSet}`;
    if (!sets.has(key)) sets.set(key, []);
    sets.get(key).push(one);
  }
  for (const [key, members] of sets) yield sharing(key, members, counters.get(key) ?? {});
}

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
  const fill = Math.max(0, ...Object.values(levels).map(({ used, total }) => used / (total || 1)));
  const worst = (held.length ? held : members).reduce((a, b) => (SERIOUS[b.state] > SERIOUS[a.state] ? b : a));
  const devices = members.sort((a, b) => natural(a.name, b.name));
  const anyFree = devices.some((one) => one.state === "free");
  const state = held.length ? worst.state : anyFree ? "free" : worst.state;
  // Counters are left, and yet no partition that is free fits into them.
  const stranded = held.length > 0 && !anyFree && Object.values(levels).some(({ used, total }) => used < total);
  const name = key.split("/").pop();
  return { ...common(members[0]), key, name, state, fill: Math.min(1, fill), levels, devices, stranded };
}

function totals(nodes) {
  const found = Object.fromEntries(STATES.map((state) => [state, 0]));
  let stranded = 0;
  for (const node of nodes) {
    for (const board of node.boards) {
      found[board.state] += 1;
      if (board.stranded) stranded += 1;
    }
  }
  return { states: found, stranded };
}
