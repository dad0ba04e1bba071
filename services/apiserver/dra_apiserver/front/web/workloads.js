// The workloads page: what creates pods, with how many of them are ready.

import { counted, ageColumn, nameColumn, namespaceColumn, within } from "./columns.js";
import { html } from "./html.js";
import { List } from "./list.js";
import { labelText, ownerOf } from "./cluster.js";
import { param } from "./links.js";
import { sortBy } from "./order.js";
import { useObjects } from "./visit.js";

const only = param("kind");

const images = (template) => [...new Set([...(template?.spec?.initContainers ?? []), ...(template?.spec?.containers ?? [])].map((one) => one.image).filter(Boolean))];

/** `count` gives how many pods are ready and how many are wanted. */
const keep = (kind, page, count, template = (spec) => spec.template) => ({ metadata, spec, status }) => {
  const [ready, wanted] = count(spec, status ?? {});
  return {
    kind,
    page,
    key: `${kind}/${metadata.namespace}/${metadata.name}`,
    namespace: metadata.namespace,
    name: metadata.name,
    created: metadata.creationTimestamp,
    owner: ownerOf(metadata),
    labels: labelText(metadata),
    ready,
    wanted,
    images: images(template(spec)),
  };
};

const replicas = (spec, status) => [status.readyReplicas ?? 0, spec.replicas ?? 1];
const KINDS = {
  deployments: keep("Deployment", "deployments", replicas),
  statefulsets: keep("StatefulSet", "statefulsets", replicas),
  daemonsets: keep("DaemonSet", "daemonsets", (spec, status) => [status.numberReady ?? 0, status.desiredNumberScheduled ?? 0]),
  replicasets: keep("ReplicaSet", "replicasets", replicas),
  jobs: keep("Job", "jobs", (spec, status) => [status.succeeded ?? 0, spec.completions ?? spec.parallelism ?? 1]),
  cronjobs: keep("CronJob", "cronjobs", (spec, status) => [(status.active ?? []).length, (status.active ?? []).length], (spec) => spec.jobTemplate.spec.template),
};
const GROUPS = { jobs: "batch", cronjobs: "batch" };

const done = (row) => row.ready >= row.wanted;

const COLUMNS = [
  namespaceColumn,
  nameColumn("Name", (row) => `${row.page}/${row.namespace}/${row.name}`),
  { id: "kind", title: "Kind", text: (row) => row.kind },
  { id: "ready", title: "Ready", text: (row) => `${row.ready} of ${row.wanted}`, value: (row) => row.ready / (row.wanted || 1),
    cell: (row) => html`<span class=${`chip ${done(row) ? "free" : "waiting"}`}>${row.ready} of ${row.wanted}</span>` },
  { id: "images", title: "Images", wide: true, text: (row) => row.images.join(", ") },
  ageColumn,
];

export function Workloads() {
  const all = Object.entries(KINDS).map(([plural, kept]) => useObjects([`/apis/${GROUPS[plural] ?? "apps"}/v1/${plural}`], kept));
  // A ReplicaSet of a Deployment, or the Job of a CronJob, is on the page of its owner.
  const own = within(all.flatMap(({ rows }) => rows)).filter((row) => !row.owner);
  const found = sortBy(only.value ? own.filter((row) => row.kind === only.value) : own, (row) => row.name).sort((a, b) => Number(done(a)) - Number(done(b)));
  const problems = all.map(({ state }) => state).filter((state) => state !== "live" && state !== "loading");
  const controls = html`<label>Kind <select value=${only.value} onChange=${(event) => (only.value = event.target.value)}><option value="">all</option>
    ${["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"].map((kind) => html`<option value=${kind}>${kind}</option>`)}</select></label>`;
  return html`<section aria-label="Workloads"><h1>Workloads</h1>
    <${List} label="Workloads" columns=${COLUMNS} rows=${found} id=${(row) => row.key} hint="name, kind, image" controls=${controls} empty=${all.some(({ state }) => state === "loading") ? "loading…" : "There is no workload here."}
      note=${problems[0] ?? `${counted(found.length, "workload")}, ${found.filter((row) => !done(row)).length} not ready`} />
  </section>`;
}
