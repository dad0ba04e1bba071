// What would help a pod that waits, as the scheduler tried it, with buttons that show the plan and then act.

import { actionsOnPod, adding, uncordoning } from "./actions.js";
import { claims, nodes, pods } from "./cluster.js";
import { html } from "./html.js";
import { past } from "./moments.js";
import { WhatIf } from "./preview.js";

export function Remedy({ report }) {
  const { change } = report;
  const actions = past.value || !report.state.startsWith("pending") ? [] : actionsFor(report);
  if (!change && !actions.length) return null;
  return html`<div class="remedy">
    ${change && html`<p class="change"><b>What would help:</b> ${change.text}${change.node ? ` (node ${change.node})` : ""}</p>`}
    ${actions.length > 0 && html`<${WhatIf} key=${change?.text} title="Remedies" actions=${actions} main=${actions.length > 1} />`}</div>`;
}

/** The actions that bring about the change, or else make room. */
function actionsFor({ change, closest }) {
  const users = (change?.claims ?? []).flatMap((key) => usersOf(key));
  const freeing = users.slice(0, 3).flatMap(actionsOnPod);
  const cordoned = nodes.value.filter(({ name, cordoned: away }) => away && name === (change?.node || closest));
  const like = change?.node || closest;
  return [...freeing, ...cordoned.map(({ name }) => uncordoning(name)), ...(like ? [adding(like)] : [])];
}

/** The pods that a claim is reserved for. */
function usersOf(key) {
  const claim = claims.value.find((one) => one.key === key);
  return claim ? pods.value.filter((pod) => pod.namespace === claim.namespace && claim.pods.includes(pod.name)) : [];
}
