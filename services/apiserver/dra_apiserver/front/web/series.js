// How many devices of each model claims had after each change of a claim. Pure.

/**
 * `[{time, used}]`, the oldest first: after each change, the number of devices in use by model.
 *
 * `changes` are those of claims, the oldest first. `claims` are those of now, as cluster.js keeps them. `board(key)` is the
 * device of the machine that a device `driver/pool/name` belongs to, as `{key, model}`.
 */
export function series(changes, claims, board) {
  const holders = new Map();
  const used = new Map();
  const add = ({ key, model }, by) => {
    const before = holders.get(key) ?? 0;
    holders.set(key, before + by);
    if ((before === 0 && by > 0) || (before + by === 0 && by < 0)) used.set(model, (used.get(model) ?? 0) + by);
  };
  const held = new Map();
  const hold = (claim, results) => {
    for (const one of held.get(claim) ?? []) add(one, -1);
    // A device that is published no more has no model.
    const boards = results.map(({ driver, pool, device }) => board(`${driver}/${pool}/${device}`)).filter(Boolean);
    for (const one of boards) add(one, 1);
    held.set(claim, boards);
  };
  for (const [claim, results] of before(changes, claims)) hold(claim, results);
  const points = [];
  for (const change of changes) {
    const results = allocated(change, "new");
    if (!results) continue;
    hold(`${change.namespace}/${change.name}`, results);
    points.push({ time: Date.parse(change.time), used: new Map(used) });
  }
  return points;
}

/** What claims had before the first change. */
function before(changes, claims) {
  const found = new Map(claims.map((claim) => [claim.key, claim.results]));
  const seen = new Set();
  for (const change of changes) {
    const key = `${change.namespace}/${change.name}`;
    if (change.type === "ADDED") {
      if (!seen.has(key)) found.set(key, []);
      seen.add(key);
      continue;
    }
    const old = allocated(change, "old");
    if (old && !seen.has(key)) {
      found.set(key, old);
      seen.add(key);
    }
  }
  return found;
}

/** The devices that a change gives a claim, or, for "old", takes from it; undefined if it is not about them. */
function allocated({ type, changes = [] }, side) {
  if (type === "DELETED") return side === "new" ? [] : undefined;
  for (const field of changes) {
    if (field.path === ".status.allocation") return field[side]?.devices?.results ?? [];
    if (field.path === ".status") return field[side]?.allocation?.devices?.results ?? [];
  }
  return undefined;
}
