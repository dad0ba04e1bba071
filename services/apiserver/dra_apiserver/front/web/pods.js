// The pods page: what waits comes first, with the reason in a sentence; and one pod, with its explanation.

import { computed } from "@preact/signals";
import { actionsOnPod } from "./actions.js";
import { Age } from "./age.js";
import { useAnswer, useChanges } from "./answers.js";
import { claims, podPath, pods, world } from "./cluster.js";
import { ageColumn, nameColumn, within } from "./columns.js";
import { Explanation } from "./explanation.js";
import { html } from "./html.js";
import { InjectedDevices, useInjected } from "./injected.js";
import { Link } from "./links.js";
import { List } from "./list.js";
import { Logs, PodLogs } from "./logs.js";
import { Terminal } from "./terminal.js";
import { past } from "./moments.js";
import { grouped, keptOrder } from "./order.js";
import { WhatIf } from "./preview.js";
import { podPhases, Timeline } from "./timeline.js";

// The scheduler is asked about so many pods that wait, where it has no more than so many nodes to look at.
export const HELPED = 3;
export const FEW_NODES = 100;

const ORDER = { Pending: 0, Failed: 1, Running: 2, Succeeded: 3 };
const byName = keptOrder((pod) => pod.key);
const sorted = computed(() => grouped(byName(pods.value), (pod) => ORDER[pod.phase] ?? 4));

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
export function Help({ pod }) {
  const [report] = useAnswer(`/insight/explain/pod/${pod.key}?nodes=1`, pod.conditions.PodScheduled?.message);
  return report?.change ? html`<p class="change"><b>What would help:</b> ${report.change.text}</p>` : null;
}

export const unscheduled = (pod) => pod.conditions.PodScheduled?.status === "False";
const restarts = (pod) => pod.statuses.reduce((sum, one) => sum + (one.restartCount ?? 0), 0);

const columns = (helped) => [
  nameColumn("Pod", (pod) => `pods/${pod.key}`, (pod) => pod.key),
  { id: "status", title: "Status", text: status, cell: (pod) => html`<span class=${`chip phase-${pod.phase}`}>${status(pod)}</span>` },
  { id: "node", title: "Node", kind: "short", text: (pod) => pod.node, cell: (pod) => pod.node && html`<${Link} to=${`nodes/${pod.node}`}>${pod.node}<//>` },
  ageColumn,
  { id: "why", title: "Why it waits", kind: "why", text: reason, cell: (pod) => html`${reason(pod)}${helped.has(pod) && html`<${Help} pod=${pod} />`}` },
  { id: "restarts", title: "Restarts", kind: "number", wide: true, text: (pod) => String(restarts(pod)), value: restarts },
  { id: "owner", title: "Owner", wide: true, text: (pod) => pod.owner },
];

export function Pods() {
  const rows = within(sorted.value);
  const few = !past.value && world.value.nodes.length <= FEW_NODES;
  const helped = new Set(few ? rows.slice(0, HELPED).filter(unscheduled) : []);
  return html`<section aria-label="Pods"><h1>Pods</h1>
    <${List} label="Pods" columns=${columns(helped)} rows=${rows} id=${(pod) => pod.key} hint="name, node, status, reason" empty="There is no pod yet."
      note=${`${rows.filter((pod) => pod.phase === "Pending").length} wait, ${rows.length} in all`} />
  </section>`;
}

/** The parts of a pod's page that other kinds do not have. */
export const POD = {
  title: "Pod",
  acts: true,
  shown: ["Node", "ResourceClaim"],
  chip: (name) => html`<${Chip} name=${name} />`,
  overview: (name) => html`<${Overview} name=${name} />`,
  tabs: { logs: { title: "Logs", view: (name) => html`<${AllLogs} name=${name} />` } },
};

const found = (name) => pods.value.find((one) => one.key === name);

function Chip({ name }) {
  const pod = found(name);
  return pod ? html`<span class=${`chip phase-${pod.phase}`}>${status(pod)}</span>` : null;
}

function AllLogs({ name }) {
  const pod = found(name);
  if (!pod || past.value) return html`<p class="note">${past.value ? "Logs of the past are not kept." : "There is no such pod."}</p>`;
  if (!pod.node) return html`<p class="note">It is on no node yet.</p>`;
  return html`<${PodLogs} pod=${pod} />`;
}

function Overview({ name }) {
  const pod = found(name);
  if (!pod) return null;
  const mine = claims.value.filter((claim) => claim.namespace === pod.namespace && pod.claims.includes(claim.name));
  return html`<p>${pod.node ? html`on node <${Link} to=${`nodes/${pod.node}`}>${pod.node}<//>` : "on no node yet"}, <${Age} of=${pod.created} /> old</p>
    ${past.value ? html`<p>${reason(pod)}</p><p class="note">The tree is of what is now. In a terminal: <code>dralab explain pod/${pod.name} -n ${pod.namespace} --at ${past.value.revision}</code></p>` : html`<${Explanation} of=${`pod/${name}`} version=${`${pod.phase} ${pod.node} ${pod.conditions.PodScheduled?.message}`} />`}
    ${mine.length > 0 && html`<h2>Claims</h2><ul>${mine.map((claim) => html`<li><${Link} to=${`claims/${claim.key}`}>${claim.name}<//>${": "}
      ${claim.results.length ? claim.results.map((one) => one.device).join(", ") : "not allocated"}</li>`)}</ul>`}
    <h2>Phases</h2><${Phases} pod=${pod} claims=${mine} />
    ${!past.value && html`<${WhatIf} key=${pod.key} actions=${actionsOnPod(pod)} />`}
    <h2>Containers</h2><${Containers} pod=${pod} />`;
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
