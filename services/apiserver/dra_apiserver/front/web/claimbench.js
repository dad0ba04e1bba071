// The workbench for whole claims: which devices each request matches, what its constraints choose from, what the API server
// says against it, and which devices the scheduler would give it now.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { request } from "./api.js";
import { classes, devices, slices } from "./cluster.js";
import { completeClaim } from "./completion.js";
import { askLater, Editor, Problems } from "./editor.js";
import { Explained } from "./explanation.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { readOnly } from "./moments.js";
import { Uncertain } from "./preview.js";

const DELAY = 150;
const PLAN_DELAY = 400;
const MOST = 300;
const SHOWN = 40;
const YAML = "application/yaml";

/** A claim of one request. */
export const claimText = (deviceClass, expression) => `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: my-claim
  namespace: default
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: ${deviceClass}${expression ? `\n        selectors:\n        - cel:\n            expression: |-${expression.split("\n").map((line) => `\n              ${line}`).join("")}` : ""}
`;

export const manifest = signal("");
const answer = signal(undefined);
const verdict = signal(undefined);
const plan = signal(undefined);

export function ClaimBench({ known }) {
  const text = manifest.value;
  useEffect(() => {
    if (!manifest.value.trim() && classes.value.length) manifest.value = claimText(classes.value[0].name, "");
  }, [classes.value.length]);
  useEffect(() => examineLater(text), [text, slices.value]);
  const claim = answer.value?.claim;
  useEffect(() => (claim?.spec ? planLater(claim) : undefined), [claim, slices.value]);
  const names = classes.value.map(({ name }) => name);
  return html`<${Editor} id="claim" text=${manifest} rows="18" label="A ResourceClaim or ResourceClaimTemplate, as YAML"
      complete=${(value, cursor) => completeClaim(value, cursor, known, names)} />
    <${Report} /><${Plan} /><${Save} />`;
}

function examineLater(text) {
  if (!text.trim()) return undefined;
  const body = { manifest: text, most: MOST };
  return askLater(DELAY, (signal) => request("/insight/claim", { method: "POST", body, signal }), (found) => (answer.value = found));
}

/** Asks the API server whether it would take the claim, and the scheduler where a pod with it would go. */
function planLater(claim) {
  const name = claim.metadata.name ?? "my-claim";
  const namespace = claim.metadata.namespace ?? "default";
  const metadata = { name, namespace };
  const validate = async (signal) => {
    if (readOnly.value) return { claim: defaulted(claim) };
    const path = `/apis/resource.k8s.io/v1/namespaces/${namespace}/resourceclaims?dryRun=All&fieldValidation=Strict`;
    // A name that is taken is no fault of what is tried.
    const body = { ...claim, metadata: { generateName: `${name}-`.slice(0, 50), namespace } };
    return { claim: await request(path, { method: "POST", body, signal }) };
  };
  return askLater(PLAN_DELAY, async (signal) => {
    const valid = await validate(signal).catch((error) => ({ refusal: error.message }));
    if (signal.aborted) throw new Error("too late");
    verdict.value = valid;
    if (valid.refusal) return undefined;
    const tried = { ...valid.claim, metadata };
    return request("/insight/plan/fit", { method: "POST", body: { objects: [tried, pod(metadata)] }, signal });
  }, (found) => (plan.value = found));
}

const pod = ({ name, namespace }) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: `with-${name}`, namespace },
  spec: {
    schedulerName: "default-scheduler",
    containers: [{ name: "main", image: "none", resources: { claims: [{ name: "claim" }] } }],
    resourceClaims: [{ name: "claim", resourceClaimName: name }],
  },
});

/** The claim with the defaults that an API server sets, where none may be asked to. */
function defaulted(claim) {
  const one = (request) => ({ allocationMode: "ExactCount", ...request, ...(!request.allocationMode || request.allocationMode === "ExactCount" ? { count: request.count ?? 1 } : {}) });
  const requests = (claim.spec.devices?.requests ?? []).map((request) => ({
    ...request,
    ...(request.exactly ? { exactly: one(request.exactly) } : {}),
    ...(request.firstAvailable ? { firstAvailable: request.firstAvailable.map(one) } : {}),
  }));
  return { ...claim, spec: { ...claim.spec, devices: { ...claim.spec.devices, requests } } };
}

function Report() {
  const report = answer.value;
  if (!report) return null;
  if (report.failure || report.problem) return html`<p class="bad" role="alert">${report.failure ?? report.problem}</p>`;
  return html`<div aria-live="polite">
    ${report.requests.map((one) => html`<${Request} key=${one.name} request=${one} />`)}
    ${report.constraints.map((one) => html`<${Constraint} constraint=${one} />`)}
    ${!report.requests.length && html`<p class="empty">There is no request yet.</p>`}</div>`;
}

function Request({ request: one }) {
  const wanted = one.mode === "All" ? "all of them" : `${one.count} wanted`;
  const enough = !one.problem && one.matches >= Math.max(1, one.count);
  return html`<article class="container" aria-label=${`Request ${one.name}`}>
    <h2>${one.name} <span class=${`chip ${enough ? "free" : "tainted"}`}>${one.matches} of ${one.devices} devices match, ${wanted}</span></h2>
    ${one.problem && html`<p class="bad">${one.problem}</p>`}
    <ol class="clauses">${one.selectors.map((each) => html`<li><code>${each.expression}</code>: true for ${each.matches}${each.ofClass ? ` (class ${one.deviceClass})` : ""}
      ${each.problems.length > 0 && html`<${Problems} text=${each.expression} problems=${each.problems} />`}</li>`)}</ol>
    <details><summary>Its devices</summary><table class="rows"><thead><tr><th>Device</th><th>Match</th>${one.selectors.map((_, index) => html`<th>Selector ${index + 1}</th>`)}<th>State</th><th>Saw</th></tr></thead><tbody>
      ${one.findings.slice(0, SHOWN).map((each) => html`<${Finding} finding=${each} />`)}</tbody></table>
      ${one.devices > SHOWN && html`<p>${one.devices - Math.min(SHOWN, one.findings.length)} more are not shown.</p>`}</details>
  </article>`;
}

function Finding({ finding }) {
  const state = devices.value.get(`${finding.driver}/${finding.pool}/${finding.device}`)?.state ?? "";
  const passed = (each) => (each === true ? "yes" : each === false ? "no" : each);
  return html`<tr><td>${finding.pool}/${finding.device}</td>
    <td><span class=${`chip ${finding.matches ? "free" : "tainted"}`}>${finding.matches ? "yes" : "no"}</span></td>
    ${finding.selectors.map((each) => html`<td>${passed(each)}</td>`)}
    <td>${state && html`<span class=${`chip ${state}`}>${state}</span>`}</td>
    <td class="why">${Object.entries(finding.values).map(([name, value]) => html`<span class="saw">${name.split("/").pop()}=${value}</span> `)}</td></tr>`;
}

function Constraint({ constraint: one }) {
  const values = Object.entries(one.values).map(([value, count]) => `${value} (${count})`);
  const shown = values.slice(0, 12).join(", ") + (values.length > 12 ? ` and ${values.length - 12} more` : "");
  return html`<p class="container"><b>${one.distinct ? "all different" : "all the same"}: ${one.attribute}</b>${one.requests.length > 0 && ` of ${one.requests.join(", ")}`}:
    ${" "}${shown || "no matching device has it"}${one.without > 0 && html`; <span class="bad">${one.without} devices have none</span>`}</p>`;
}

function Plan() {
  const { refusal } = verdict.value ?? {};
  if (refusal) return html`<p class="bad" role="alert">The API server would refuse it: ${refusal}</p>`;
  const found = plan.value;
  if (!found) return null;
  if (found.failure) return html`<p class="note">No allocation is known: ${found.failure}</p>`;
  const [place] = found.pods;
  return html`<section class="preview" aria-label="Allocation"><h2>A pod with this claim now</h2>
    ${place?.node ? html`<p>would run on <b>${place.node}</b> with</p><ul>${place.devices.map((one) => html`<li>${one}</li>`)}</ul>` : html`<p>would wait: ${place?.message}</p>`}
    ${Object.entries(found.preempted ?? {}).map(([name]) => html`<p class="bad"><${Link} to=${`pods/${name}`}>${name}<//> would be preempted</p>`)}
    <${Uncertain} lines=${found.uncertain} />
    ${found.unplaced && html`<${Explained} report=${found.unplaced} />`}</section>`;
}

function Save() {
  const [outcome, setOutcome] = useState("");
  const claim = answer.value?.claim;
  if (!claim?.spec) return null;
  const plural = /^kind:\s*["']?ResourceClaimTemplate/m.test(manifest.value) ? "resourceclaimtemplates" : "resourceclaims";
  const path = `/apis/resource.k8s.io/v1/namespaces/${claim.metadata.namespace ?? "default"}/${plural}`;
  const create = (event) => {
    event.preventDefault();
    request(path, { method: "POST", text: manifest.value, type: YAML }).then(
      ({ kind, metadata }) => setOutcome(`${kind.toLowerCase()} ${metadata.name} created`),
      (error) => setOutcome(error.message),
    );
  };
  return html`<form class="controls" onSubmit=${create}><button disabled=${readOnly.value}>Create it in ${claim.metadata.namespace ?? "default"}</button>
    <p aria-live="polite">${outcome}</p></form>`;
}
