// The phases of a pod or claim, with the time that each took.

import { html } from "./html.js";
import { duration } from "./times.js";
import { createdAt, firstWritten } from "./written.js";

const CONDITION = (type) => `.status.conditions[type="${type}"]`;

/** When a condition of a pod became true: as its changes say, or else the pod. */
function became(type, pod, changes) {
  if (pod?.conditions[type]?.status !== "True") return undefined;
  return firstWritten(changes, `${CONDITION(type)}.status`, (value) => value === "True") ?? pod.conditions[type].lastTransitionTime;
}

const started = (pod) => pod.statuses.map((one) => one.state?.running?.startedAt ?? one.state?.terminated?.startedAt).filter(Boolean).sort()[0];
const ran = (changes) => firstWritten(changes, ".status.phase", (value) => value === "Running");

/** Of the pods that a claim is reserved for the one that was bound first. */
export const firstUser = (claim, pods) =>
  pods
    .filter((pod) => pod.namespace === claim.namespace && claim.pods.includes(pod.name))
    .sort((a, b) => when(a).localeCompare(when(b)))[0];
const when = (pod) => pod.conditions.PodScheduled?.lastTransitionTime ?? "~";

/** `[name, time]` of a claim's phases; without a time it has not come yet. `pod` is its first user; the changes are both objects'. */
export function claimPhases(claim, pod, ofClaim = [], ofPod = []) {
  const written = (field) => firstWritten(ofClaim, `.status.${field}`);
  const bound = became("PodScheduled", pod, []);
  return [
    ["created", createdAt(ofClaim) ?? claim.created],
    ["allocated", claim.allocated ? (written("allocation") ?? claim.allocatedAt ?? bound) : undefined],
    ["reserved", claim.pods.length ? (written("reservedFor") ?? claim.allocatedAt ?? bound) : undefined],
    ["pod bound", firstWritten(ofPod, ".spec.nodeName") ?? bound],
    ["prepared", became("PodReadyToStartContainers", pod, ofPod)],
    ["in use", pod && started(pod) ? (ran(ofPod) ?? started(pod)) : undefined],
  ];
}

/** The same of a pod. */
export function podPhases(pod, claims, changes = []) {
  const allocated = claims.map((claim) => claim.allocatedAt).filter(Boolean).sort().pop();
  return [
    ["created", createdAt(changes) ?? pod.created],
    ...(claims.length ? [["claims allocated", allocated]] : []),
    ["bound to a node", firstWritten(changes, ".spec.nodeName") ?? became("PodScheduled", pod, [])],
    ["devices prepared", became("PodReadyToStartContainers", pod, changes)],
    ["containers started", started(pod) ? (ran(changes) ?? started(pod)) : undefined],
    ["ready", became("Ready", pod, changes)],
  ];
}

export function Timeline({ phases }) {
  let before = Date.parse(phases[0][1]);
  return html`<ol class="timeline">${phases.map(([name, time]) => {
    const took = time ? Date.parse(time) - before : undefined;
    // What is known to the second may seem to lie before what is known to the millisecond.
    if (time) before = Math.max(before, Date.parse(time));
    return html`<li class=${time ? "done" : "open"}><b>${name}</b> ${time ? html`<time datetime=${time}>${new Date(time).toLocaleTimeString()}</time>${took > 0 ? ` after ${duration(took)}` : ""}` : "not yet"}</li>`;
  })}</ol>`;
}
