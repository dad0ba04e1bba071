// The phases of a pod or claim, with the time that each took.

import { html } from "./html.js";
import { duration } from "./times.js";

/** `[name, time]` of a claim's phases; without a time it has not come yet. */
export function claimPhases(claim, pods) {
  const users = pods.filter((pod) => claim.pods.includes(pod.name));
  const earliest = (type) =>
    users.map((pod) => pod.conditions[type]).filter((one) => one?.status === "True").map((one) => one.lastTransitionTime).sort()[0];
  const started = users.flatMap((pod) => pod.statuses.map((one) => one.state?.running?.startedAt)).filter(Boolean).sort()[0];
  return [
    ["created", claim.created],
    ["allocated", claim.allocatedAt ?? (claim.allocated ? earliest("PodScheduled") : undefined)],
    ["reserved", claim.pods.length ? (claim.allocatedAt ?? earliest("PodScheduled")) : undefined],
    ["pod bound", earliest("PodScheduled")],
    ["prepared", earliest("PodReadyToStartContainers")],
    ["in use", started],
  ];
}

/** The same of a pod. */
export function podPhases(pod, claims) {
  const when = (type) => (pod.conditions[type]?.status === "True" ? pod.conditions[type].lastTransitionTime : undefined);
  const allocated = claims.map((claim) => claim.allocatedAt).filter(Boolean).sort().pop();
  const started = pod.statuses.map((one) => one.state?.running?.startedAt ?? one.state?.terminated?.startedAt).filter(Boolean).sort()[0];
  return [
    ["created", pod.created],
    ...(claims.length ? [["claims allocated", allocated]] : []),
    ["bound to a node", when("PodScheduled")],
    ["devices prepared", when("PodReadyToStartContainers")],
    ["containers started", started],
    ["ready", when("Ready")],
  ];
}

export function Timeline({ phases }) {
  let before = Date.parse(phases[0][1]);
  return html`<ol class="timeline">${phases.map(([name, time]) => {
    const took = time ? Date.parse(time) - before : undefined;
    if (time) before = Date.parse(time);
    return html`<li class=${time ? "done" : "open"}><b>${name}</b> ${time ? html`<time datetime=${time}>${new Date(time).toLocaleTimeString()}</time>${took > 0 ? ` after ${duration(took)}` : ""}` : "not yet"}</li>`;
  })}</ol>`;
}
