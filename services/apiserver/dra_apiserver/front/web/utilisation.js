// How many devices of each model claims had, over the time that the server remembers.

import { useEffect, useState } from "preact/hooks";
import { request } from "./api.js";
import { informers, world } from "./cluster.js";
import { range } from "./moments.js";
import { hasCapacity, modelOf, short } from "./segments.js";
import { series } from "./series.js";

// The newest changes of claims that are read: enough for hours of a busy cluster.
const MOST = 4000;
const AGAIN = 5000;

/** The device of the machine, by the names of devices. */
function boards() {
  const found = new Map();
  for (const { boards: ones } of world.value.nodes) {
    for (const board of ones.filter(hasCapacity)) {
      const one = { key: board.key, model: short(modelOf(board)) || board.driver };
      for (const device of board.devices) found.set(device.key, one);
    }
  }
  return found;
}

/** The series, read again from time to time; empty if the server has no history. */
export function useUtilisation(ready) {
  const [points, set] = useState([]);
  useEffect(() => {
    if (!ready || !range.value) return undefined;
    const controller = new AbortController();
    const read = async () => {
      const path = `/history${informers.claims.paths[0]}?order=newest&limit=${MOST}&objects=false&pretty=false`;
      const { items } = await request(path, { signal: controller.signal });
      const all = boards();
      set(series(items.sort((a, b) => Number(a.revision) - Number(b.revision)), [...informers.claims.objects.values()], (key) => all.get(key)));
    };
    let timer;
    const again = () => read().catch(() => {}).finally(() => controller.signal.aborted || (timer = setTimeout(again, AGAIN)));
    again();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [ready, Boolean(range.value)]);
  return points;
}
