// The objects that an object owns: the pods and claims of a workload, also those of its ReplicaSets and Jobs.

import { claims, ownerOf, pods } from "./cluster.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { useObjects } from "./visit.js";

const MOST = 100;
// Owners whose pods belong to objects between them.
const BETWEEN = { Deployment: ["ReplicaSet", "replicasets", "/apis/apps/v1"], CronJob: ["Job", "jobs", "/apis/batch/v1"] };
const keep = ({ metadata }) => ({ name: metadata.name, owner: ownerOf(metadata) });

export function Owned({ object }) {
  return BETWEEN[object.kind] ? html`<${Indirect} object=${object} />` : html`<${Direct} object=${object} owners=${[`${object.kind}/${object.metadata.name}`]} />`;
}

function Indirect({ object }) {
  const [kind, plural, path] = BETWEEN[object.kind];
  const { namespace, name } = object.metadata;
  const { rows } = useObjects([`${path}/namespaces/${namespace}/${plural}`], keep);
  const mine = rows.filter(({ owner }) => owner === `${object.kind}/${name}`);
  return html`${mine.length > 0 && html`<section aria-label=${`${kind}s`}><h2>${kind}s</h2><ul>${mine.map((one) => html`<li><${Link} to=${`${plural}/${namespace}/${one.name}`}>${one.name}<//></li>`)}</ul></section>`}
    <${Direct} object=${object} owners=${mine.map((one) => `${kind}/${one.name}`)} />`;
}

const owned = (namespace, owners) => pods.value.filter((pod) => pod.namespace === namespace && owners.includes(pod.owner));

/** The pods of a workload. The names of a Deployment's ReplicaSets, and of a CronJob's Jobs, begin with its own. */
export function podsOf({ kind, metadata: { namespace, name } }) {
  const between = BETWEEN[kind]?.[0];
  if (!between) return owned(namespace, [`${kind}/${name}`]);
  return pods.value.filter((pod) => pod.namespace === namespace && pod.owner.startsWith(`${between}/${name}-`) && !pod.owner.slice(between.length + name.length + 2).includes("-"));
}

function Direct({ object, owners }) {
  const { namespace } = object.metadata;
  if (!namespace) return null;
  const mine = owned(namespace, owners);
  const held = claims.value.filter((claim) => claim.namespace === namespace && owners.includes(claim.owner));
  return html`${mine.length > 0 && html`<section aria-label="Its pods"><h2>Pods</h2><ul class="plain">${mine.slice(0, MOST).map((pod) => html`<li key=${pod.key}><span class=${`chip phase-${pod.phase}`}>${pod.deleted ? "Terminating" : pod.phase}</span> <${Link} to=${`pods/${pod.key}`}>${pod.name}<//>${pod.node && html` on <${Link} to=${`nodes/${pod.node}`}>${pod.node}<//>`}</li>`)}</ul>
      ${mine.length > MOST && html`<p class="note">${mine.length - MOST} more are not shown.</p>`}</section>`}
    ${held.length > 0 && html`<section aria-label="Its claims"><h2>Claims</h2><ul class="plain">${held.slice(0, MOST).map((claim) => html`<li key=${claim.key}><span class=${`chip ${claim.allocated ? "used" : "waiting"}`}>${claim.allocated ? "allocated" : "pending"}</span> <${Link} to=${`claims/${claim.key}`}>${claim.name}<//></li>`)}</ul></section>`}`;
}
