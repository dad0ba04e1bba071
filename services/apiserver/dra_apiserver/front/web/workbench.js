// The CEL workbench: whole claims (claimbench.js), or a selector, and at each keystroke the devices that it matches, what each clause says of the others,
// errors under their character, and the cost.

import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { request } from "./api.js";
import { ClaimBench, claimText, manifest } from "./claimbench.js";
import { classes, slices } from "./cluster.js";
import { complete, vocabulary } from "./completion.js";
import { askLater, Editor, Problems } from "./editor.js";
import { html } from "./html.js";
import { address } from "./links.js";
import { readOnly } from "./moments.js";

const DELAY = 120;
const MOST = 300;

export const expression = signal("");
const answer = signal(undefined);
const known = computed(() => vocabulary(slices.value));

export function Workbench({ name }) {
  const current = (one) => (one === name ? "page" : undefined);
  return html`<section class="workbench" aria-label="CEL workbench">
    <h1>CEL workbench</h1>
    <nav aria-label="What to write"><a href=${address("cel")} aria-current=${current("")}>Selector</a>
      <a href=${address("cel/claim")} aria-current=${current("claim")}>Claim</a></nav>
    ${name === "claim" ? html`<${ClaimBench} known=${known.value} />` : html`<${SelectorBench} />`}
  </section>`;
}

function SelectorBench() {
  return html`
    <p class="controls"><label>Begin with <select onChange=${(event) => event.target.value && (expression.value = event.target.value)}>
      <option value="">a device class…</option>
      ${classes.value.flatMap(({ name, selectors }) => selectors.map((one) => html`<option value=${one.cel?.expression ?? ""}>${name}</option>`))}
    </select></label></p>
    <${Selector} /><${Answer} /><${Save} />`;
}

function Selector() {
  const text = expression.value;
  const version = slices.value;
  useEffect(() => evaluateLater(text), [text, version]);
  return html`<${Editor} id="cel" text=${expression} rows="4" complete=${(value, cursor) => complete(value, cursor, known.value)}
    label=${html`Selector: a CEL expression about <code>device</code>`}
    placeholder='device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-40GB"' />`;
}

function evaluateLater(text) {
  if (!text.trim()) {
    answer.value = undefined;
    return undefined;
  }
  const body = { expression: text, most: MOST };
  const ask = (signal) => request("/insight/cel", { method: "POST", body, signal });
  return askLater(DELAY, ask, (report) => (answer.value = { text, ...report }));
}

function Answer() {
  const report = answer.value;
  if (!report) return html`<p class="empty" aria-live="polite">${known.value.attributes.size} domains of attributes are known: type <code>device.</code> to complete.</p>`;
  if (report.failure) return html`<p class="bad" role="alert">${report.failure}</p>`;
  if (report.problems.length) return html`<${Problems} text=${report.text} problems=${report.problems} />`;
  const share = Math.max(report.estimatedCost, report.highestCost) / report.costLimit;
  return html`<div>
    <p aria-live="polite"><b>${report.matches}</b> of ${report.devices} devices match.
      Cost: at most ${report.highestCost} of ${report.costLimit} (${report.estimatedCost} estimated) <meter min="0" max="1" value=${share} high="0.8" aria-label="Cost" /></p>
    ${report.clauses.length > 1 && html`<ol class="clauses">${report.clauses.map((one) => html`<li><code>${one.expression}</code>: true for ${one.matches}</li>`)}</ol>`}
    <table class="rows"><thead><tr><th>Device</th><th>Match</th>${report.clauses.length > 1 && report.clauses.map((_, index) => html`<th>Clause ${index + 1}</th>`)}<th>Saw</th></tr></thead><tbody>
      ${report.findings.map((one) => html`<tr key=${`${one.driver}/${one.pool}/${one.device}`}><td>${one.pool}/${one.device}</td>
        <td>${one.matches ? html`<span class="chip free">yes</span>` : html`<span class="chip tainted">no</span>`} ${one.error}</td>
        ${report.clauses.length > 1 && one.clauses.map((each) => html`<td>${each === true ? "yes" : each === false ? "no" : each}</td>`)}
        <td class="why">${Object.entries(one.values).map(([name, value]) => html`<span class="saw">${name.split("/").pop()}=${value}</span> `)}</td></tr>`)}
    </tbody></table>
    ${report.devices > report.findings.length && html`<p>${report.devices - report.findings.length} more are not shown.</p>`}
  </div>`;
}

function Save() {
  const [name, setName] = useState("my-class");
  const [outcome, setOutcome] = useState("");
  const good = answer.value && !answer.value.failure && !answer.value.problems.length;
  if (!good) return null;
  const made = {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name },
    spec: { selectors: [{ cel: { expression: expression.value } }] },
  };
  const create = () =>
    request("/apis/resource.k8s.io/v1/deviceclasses", { method: "POST", body: made })
      .then(() => setOutcome(`deviceclass ${name} created`))
      .catch((error) => setOutcome(error.message));
  return html`<form class="controls" onSubmit=${(event) => { event.preventDefault(); create(); }}>
    <label>Save as a DeviceClass named <input value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <button type="submit" disabled=${readOnly.value}>Create</button>
    <a href=${address("cel/claim")} onClick=${() => (manifest.value = claimText(classes.value[0]?.name ?? "", expression.value))}>Use it in a claim</a>
    <details><summary>As a manifest</summary><pre>${JSON.stringify(made, null, 2)}</pre></details>
    <p aria-live="polite">${outcome}</p></form>`;
}
