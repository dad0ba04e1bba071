// More or fewer replicas of a workload: first where the scheduler would place the new ones, and then the button that does it.

import { useState } from "preact/hooks";
import { request } from "./api.js";
import { counted } from "./columns.js";
import { html } from "./html.js";
import { readOnly } from "./moments.js";
import { references } from "./references.js";
import { Uncertain } from "./preview.js";
import { informers } from "./cluster.js";

const MOST = 20;
const MERGE = "application/merge-patch+json";

/** A question with the pods that would be added, and the claim templates that they refer to. */
async function question(object, more) {
  const { metadata, spec } = object;
  const folder = informers.claims.paths[0].replace(/resourceclaims$/, `namespaces/${metadata.namespace}/resourceclaimtemplates`);
  const names = references(object).filter(({ kind }) => kind === "ResourceClaimTemplate").map(({ name }) => name);
  const templates = await Promise.all(names.map((name) => request(`${folder}/${name}`)));
  const workload = { apiVersion: object.apiVersion, kind: object.kind, metadata: { name: metadata.name, namespace: metadata.namespace }, spec: { ...spec, replicas: more } };
  return { objects: [workload, ...templates], more: true };
}

export function Scaling({ object, path }) {
  const now = object.spec.replicas ?? 1;
  const [wanted, setWanted] = useState(String(now));
  const [plan, setPlan] = useState(undefined);
  const [outcome, setOutcome] = useState("");
  const count = Number(wanted);
  const valid = Number.isInteger(count) && count >= 0 && wanted.trim() !== "";
  const ask = async () => {
    setOutcome("");
    setPlan({ count });
    try {
      const answer = count > now ? await request("/insight/plan/fit", { method: "POST", body: await question(object, count - now) }) : undefined;
      setPlan({ count, answer, ready: true });
    } catch (error) {
      setPlan({ count, problem: error.message, ready: true });
    }
  };
  const act = () => {
    setPlan(undefined);
    request(`${path}/scale`, { method: "PATCH", body: { spec: { replicas: count } }, type: MERGE }).then(
      () => setOutcome(`${object.kind} ${object.metadata.name} is to have ${counted(count, "replica")}`),
      (error) => setOutcome(error.message),
    );
  };
  return html`<section class="whatif" aria-label="Scale"><h3>Scale</h3><p class="controls"><label>Replicas <input type="number" class="speed" min="0" value=${wanted} onInput=${(event) => { setWanted(event.target.value); setPlan(undefined); }} /></label>
      <button disabled=${!valid || count === now} onClick=${ask}>Plan it</button><span class="note">${counted(now, "replica")} now</span></p>
    ${plan && html`<div class="preview">${plan.ready ? html`<${Answer} plan=${plan} now=${now} />` : html`<p class="note">Asking the scheduler…</p>`}
      ${plan.ready && !readOnly.value && html`<button class="do" onClick=${act}>Scale to ${plan.count} now</button>`}</div>`}
    <p role="status">${outcome}</p></section>`;
}

function Answer({ plan: { count, answer, problem }, now }) {
  if (problem) return html`<p class="bad">No preview: ${problem}</p>`;
  return answer ? html`<${Placement} answer=${answer} />` : html`<p><b>${counted(now - count, "pod")}</b> would be deleted.</p>`;
}

/** Where new pods would be placed, and what keeps the others from it: an answer of `plan fit`. */
export function Placement({ answer }) {
  const placed = (answer.pods ?? []).filter(({ node }) => node);
  return html`<p><b>${answer.fits}</b> of ${counted(answer.wanted, "new pod")} would be placed${answer.fits === answer.wanted ? `, and ${answer.moreAtLeast ? "at least " : ""}${answer.more} more` : ""}.</p>
    ${answer.fits < answer.wanted && html`<p class="bad">${answer.unplaced?.message || "The others would wait."}</p>`}
    ${answer.unplaced?.change && html`<p class="change"><b>What would help:</b> ${answer.unplaced.change.text}</p>`}
    ${Object.entries(answer.preempted ?? {}).map(([pod, by]) => html`<p class="bad">${pod} would be preempted: ${by}</p>`)}
    ${placed.length > 0 && html`<ul class="plain">${placed.slice(0, MOST).map((one) => html`<li>${one.node}: ${one.devices.map((device) => device.split("/").slice(2).join("/")).join(", ") || "no device"}</li>`)}</ul>`}
    ${placed.length > MOST && html`<p class="note">${placed.length - MOST} more are not shown.</p>`}
    <${Uncertain} lines=${answer.uncertain} />`;
}
