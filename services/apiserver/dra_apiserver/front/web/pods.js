// The pods page: what waits comes first, with the reason in a sentence; and one pod, with its explanation.

import { computed, signal } from "@preact/signals";
import { actionsOnPod } from "./actions.js";
import { Age } from "./age.js";
import { useAnswer, useChanges } from "./answers.js";
import { claims, podPath, pods, world } from "./cluster.js";
import { Explanation } from "./explanation.js";
import { natural } from "./fleet.js";
import { html } from "./html.js";
import { InjectedDevices, useInjected } from "./injected.js";
import { Link } from "./links.js";
import { Logs } from "./logs.js";
import { Terminal } from "./terminal.js";
import { past } from "./moments.js";
import { WhatIf } from "./preview.js";
import { podPhases, Timeline } from "./timeline.js";

const MOST = 500;
// The scheduler is asked about so many pods that wait, where it has no more than so many nodes to look at.
const HELPED = 3;
const FEW_NODES = 100;
const filter = signal("");

const ORDER = { Pending: 0, Failed: 1, Running: 2, Succeeded: 3 };
const sorted = computed(() => {
  const wanted = filter.value.trim().toLowerCase();
  return pods.value
    .filter((pod) => !wanted || `${pod.key} ${pod.node} ${status(pod)}`.toLowerCase().includes(wanted))
    .sort((a, b) => (ORDER[a.phase] ?? 4) - (ORDER[b.phase] ?? 4) || natural(a.key, b.key));
});

/** What kubectl's STATUS column would say. */
export function status(pod) {
  if (pod.deleted) return "Terminating";
  const waiting = pod.statuses.map((one) => one.state?.waiting?.reason ?? one.state?.terminated?.reason).find(Boolean);
  return waiting ?? pod.phase;
}

/** Why a pod waits, in a sentence. */
export function reason(pod) {
  const scheduled = pod.conditions.PodScheduled;
  if (scheduled?.status === "False") return scheduled.message || scheduled.reason || "";
  if (pod.phase !== "Pending") return "";
  const waiting = pod.statuses.map((one) => one.state?.waiting).find(Boolean);
  if (waiting) return [waiting.reason, waiting.message].filter(Boolean).join(": ");
  return pod.node ? "the node prepares its devices and starts its containers" : "the scheduler has not tried it yet";
}

/** The single change with which the pod would be placed. */
function Help({ pod }) {
  const [report] = useAnswer(`/insight/explain/pod/${pod.key}?nodes=1`, pod.conditions.PodScheduled?.message);
  return report?.change ? html`<p class="change"><b>What would help:</b> ${report.change.text}</p>` : null;
}

export function Pods() {
  const shown = sorted.value.slice(0, MOST);
  const helped = past.value || world.value.nodes.length > FEW_NODES ? 0 : HELPED;
  const unscheduled = (pod) => pod.conditions.PodScheduled?.status === "False";
  return html`<section aria-label="Pods"><h1 class="hidden">Pods</h1>
    <div class="controls"><label>Filter <input type="search" value=${filter} placeholder="name, node, status" onInput=${(event) => (filter.value = event.target.value)} /></label>
      <p>${pods.value.filter((pod) => pod.phase === "Pending").length} wait, ${pods.value.length} in all</p></div>
    <table class="rows"><thead><tr><th>Pod</th><th>Status</th><th>Node</th><th>Age</th><th>Why it waits</th></tr></thead><tbody>
      ${shown.map((pod, index) => html`<tr key=${pod.key}><td><${Link} to=${`pods/${pod.key}`}>${pod.key}<//></td>
        <td><span class=${`chip phase-${pod.phase}`}>${status(pod)}</span></td><td>${pod.node && html`<${Link} to=${`fleet/${pod.node}`}>${pod.node}<//>`}</td><td><${Age} of=${pod.created} /></td><td class="why">${reason(pod)}${index < helped && unscheduled(pod) && html`<${Help} pod=${pod} />`}</td></tr>`)}
    </tbody></table>
    ${!pods.value.length && html`<p class="empty">There is no pod yet.</p>`}
    ${sorted.value.length > MOST && html`<p>${sorted.value.length - MOST} more: a filter narrows them.</p>`}
  </section>`;
}

export function PodPage({ name }) {
  const pod = pods.value.find((one) => one.key === name);
  if (!pod) return html`<section><h1>Pod ${name}</h1><p class="empty">There is no such pod.</p></section>`;
  const mine = claims.value.filter((claim) => claim.namespace === pod.namespace && pod.claims.includes(claim.name));
  return html`<section aria-label=${`Pod ${name}`}>
    <h1>Pod ${name} <span class=${`chip phase-${pod.phase}`}>${status(pod)}</span></h1>
    <p>${pod.node ? html`on node <${Link} to=${`fleet/${pod.node}`}>${pod.node}<//>` : "on no node yet"}, <${Age} of=${pod.created} /> old</p>
    ${past.value ? html`<p>${reason(pod)}</p><p class="note">The tree is of what is now. In a terminal: <code>dralab explain pod/${pod.name} -n ${pod.namespace} --at ${past.value.revision}</code></p>` : html`<${Explanation} of=${`pod/${name}`} version=${`${pod.phase} ${pod.node} ${pod.conditions.PodScheduled?.message}`} />`}
    ${mine.length > 0 && html`<h2>Claims</h2><ul>${mine.map((claim) => html`<li><${Link} to=${`claims/${claim.key}`}>${claim.name}<//>${": "}
      ${claim.results.length ? claim.results.map((one) => one.device).join(", ") : "not allocated"}</li>`)}</ul>`}
    <h2>Phases</h2><${Phases} pod=${pod} claims=${mine} />
    ${!past.value && html`<${WhatIf} key=${pod.key} actions=${actionsOnPod(pod)} />`}
    <h2>Containers</h2><${Containers} pod=${pod} />
  </section>`;
}

function Phases({ pod, claims: mine }) {
  const version = `${pod.phase} ${pod.node} ${pod.conditions.Ready?.status}`;
  const changes = useChanges(podPath(pod), version);
  return html`<${Timeline} phases=${podPhases(pod, mine, changes)} />`;
}

function Containers({ pod }) {
  const report = useInjected(pod);
  const of = (name) => report?.containers.find((one) => one.name === name);
  return pod.containers.map((name) => html`<${Container} key=${name} pod=${pod} name=${name} report=${of(name)} />`);
}

function Container({ pod, name, report }) {
  const found = [...pod.statuses, ...pod.otherStatuses].find((one) => one.name === name);
  const [state, detail] = Object.entries(found?.state ?? {})[0] ?? ["waiting", {}];
  return html`<article class="container"><h3>${name} <span class="chip">${state}</span></h3>
    ${detail.message && html`<p>${detail.message}</p>`}
    <${Devices} status=${found} />
    <${InjectedDevices} namespace=${pod.namespace} report=${report} />
    ${pod.node && !past.value && html`<${Logs} pod=${pod.key} container=${name} restarts=${found?.restartCount ?? 0} />`}
    ${state === "running" && html`<${Terminal} pod=${pod.key} container=${name} />`}
  </article>`;
}

/** The devices that the container's status reports, with their health. */
function Devices({ status: found }) {
  const reported = (found?.allocatedResourcesStatus ?? []).flatMap(({ name, resources }) =>
    (resources ?? []).map((one) => [name, one.resourceID, one.health]),
  );
  if (!reported.length) return null;
  return html`<table><thead><tr><th>Resource</th><th>Device</th><th>Health</th></tr></thead>
    <tbody>${reported.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;
}
