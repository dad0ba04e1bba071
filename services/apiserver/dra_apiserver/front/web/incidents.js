// What went wrong in the time that the server remembers: failed scheduling, evictions, restarts, and faults of nodes and devices.

import { signal } from "@preact/signals";
import { request } from "./api.js";
import { informers } from "./cluster.js";
import { EVENTS } from "./events.js";

const MOST = 5000;
// A change of a slice has all of its devices, before and after.
const FEW = 300;
// Kubernetes reports these as events of type Normal.
const EVICTIONS = /^(TaintManagerEviction|DeviceTaintManagerEviction|Preempted|Evicted|NodeControllerEviction|DeletingPod)$/;
const FAULTS = /^(NodeNotReady|Rebooted|DeletingNode|RemovingNode)$/;

export const KINDS = { scheduling: "failed scheduling", eviction: "eviction", restart: "restart", fault: "fault", warning: "warning" };

/** `[{time, revision, kind, text}]`, the oldest first; undefined until they are read. */
export const incidents = signal(undefined);

/** The kind of an incident that an event reports; undefined if it reports none. */
export function kindOfEvent({ type, reason, count }) {
  if (reason === "FailedScheduling") return "scheduling";
  if (EVICTIONS.test(reason)) return "eviction";
  if (reason === "BackOff" || (reason === "Started" && count > 1)) return "restart";
  if (FAULTS.test(reason)) return "fault";
  return type === "Warning" ? "warning" : undefined;
}

const moment = ({ time, revision }) => ({ time: Date.parse(time), revision });

function ofEvent(change) {
  const { object } = change;
  const kind = change.type === "DELETED" ? undefined : kindOfEvent(object);
  return kind ? [{ ...moment(change), kind, text: `${object.reason}: ${object.involvedObject?.kind} ${object.involvedObject?.name}: ${object.message}` }] : [];
}

const tainted = (devices) => (devices ?? []).filter(({ taints }) => taints?.some(({ effect }) => effect !== "None"));

/** A driver taints a device that fails: the devices that a slice taints now and did not taint before. */
function ofSlice(change) {
  const { old, new: current } = (change.changes ?? []).find(({ path }) => path === ".spec.devices") ?? {};
  const before = new Set(tainted(old).map(({ name }) => name));
  const fresh = tainted(current).filter(({ name }) => !before.has(name));
  if (!fresh.length) return [];
  const [{ name, taints }] = fresh;
  const more = fresh.length > 1 ? ` and ${fresh.length - 1} more` : "";
  return [{ ...moment(change), kind: "fault", text: `device ${name}${more} of slice ${change.name}: taint ${taints[0].key}${taints[0].value ? `=${taints[0].value}` : ""}` }];
}

const ofRule = (change) => (change.type === "ADDED" ? [{ ...moment(change), kind: "fault", text: `device taint rule ${change.name}` }] : []);

const SOURCES = [
  [() => EVENTS, `objects=true&changes=false&limit=${MOST}`, ofEvent],
  [() => informers.slices.paths[0], `limit=${FEW}`, ofSlice],
  [() => informers.rules.paths[0], `changes=false&limit=${MOST}`, ofRule],
];
let seen = "";

/** Read the incidents up to a revision, once each. */
export async function readIncidents(revision) {
  const from = seen && `&from=${seen}`;
  seen = revision;
  const found = await Promise.all(SOURCES.map(([path, query, incident]) => path() && read(path(), `to=${revision}${from}&${query}`, incident)));
  const fresh = found.flat().filter(Boolean);
  if (fresh.length || !incidents.value) incidents.value = [...(incidents.value ?? []), ...fresh].sort((a, b) => a.time - b.time);
}

async function read(path, query, incident) {
  try {
    const { items } = await request(`/history${path}?${query}&pretty=false`);
    return items.flatMap(incident);
  } catch {
    // Who may not read a kind does not see its incidents.
    return [];
  }
}
