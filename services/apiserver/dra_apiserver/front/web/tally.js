// How many devices of each model there are, and in which states. Pure.

import { hasCapacity, modelOf, short } from "./segments.js";

/** States in the order of a bar: what works, what waits, what is lost, and what is left. */
export const ORDER = ["used", "waiting", "unhealthy", "tainted", "blocked", "free"];

// By a node's boards, which are the same list while none of them changes.
const known = new WeakMap();

function ofNode({ boards }) {
  let found = known.get(boards);
  if (found) return found;
  found = new Map();
  for (const board of boards.filter(hasCapacity)) {
    const model = short(modelOf(board)) || board.driver;
    if (!found.has(model)) found.set(model, { total: 0, stranded: 0, states: {} });
    const one = found.get(model);
    one.total += 1;
    one.stranded += board.stranded ? 1 : 0;
    one.states[board.state] = (one.states[board.state] ?? 0) + 1;
  }
  known.set(boards, found);
  return found;
}

/** `[{model, total, stranded, states}]` of the nodes' devices, the most frequent model first. */
export function tally(nodes) {
  const sums = new Map();
  for (const node of nodes) {
    for (const [model, { total, stranded, states }] of ofNode(node)) {
      if (!sums.has(model)) sums.set(model, { model, total: 0, stranded: 0, states: {} });
      const sum = sums.get(model);
      sum.total += total;
      sum.stranded += stranded;
      for (const state in states) sum.states[state] = (sum.states[state] ?? 0) + states[state];
    }
  }
  return [...sums.values()].sort((a, b) => b.total - a.total || a.model.localeCompare(b.model));
}

/** Add up the models. */
export function together(models) {
  const found = { total: 0, stranded: 0, states: {} };
  for (const { total, stranded, states } of models) {
    found.total += total;
    found.stranded += stranded;
    for (const state in states) found.states[state] = (found.states[state] ?? 0) + states[state];
  }
  return found;
}

/** The number of devices that claims have. */
export const inUse = ({ states }) => (states.used ?? 0) + (states.waiting ?? 0);
