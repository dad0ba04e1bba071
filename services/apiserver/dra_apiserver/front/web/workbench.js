// The CEL workbench: a selector, and at each keystroke the devices that it matches, what each clause says of the others,
// errors under their character, and the cost.

import { computed, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "./api.js";
import { classes, slices } from "./cluster.js";
import { complete, vocabulary } from "./completion.js";
import { html } from "./html.js";
import { settings } from "./settings.js";

const DELAY = 120;
const MOST = 300;

export const expression = signal("");
const answer = signal(undefined);
const known = computed(() => vocabulary(slices.value));

export function Workbench() {
  return html`<section class="workbench" aria-label="CEL workbench">
    <h1>CEL workbench</h1>
    <p class="controls"><label>Begin with <select onChange=${(event) => event.target.value && (expression.value = event.target.value)}>
      <option value="">a device class…</option>
      ${classes.value.flatMap(({ name, selectors }) => selectors.map((one) => html`<option value=${one.cel?.expression ?? ""}>${name}</option>`))}
    </select></label></p>
    <${Editor} /><${Answer} /><${Save} />
  </section>`;
}

function Editor() {
  const ref = useRef(null);
  const [open, setOpen] = useState(undefined);
  const [active, setActive] = useState(0);
  const text = expression.value;
  const version = slices.value;
  useEffect(() => evaluateLater(text), [text, version]);
  const suggest = () => {
    const found = complete(ref.current.value, ref.current.selectionStart, known.value);
    setOpen(found.options.length ? found : undefined);
    setActive(0);
  };
  const accept = (option) => {
    const { selectionStart, value } = ref.current;
    const cursor = open.from + option.text.length;
    // At once: what is typed next goes behind it.
    ref.current.value = value.slice(0, open.from) + option.text + value.slice(selectionStart);
    ref.current.setSelectionRange(cursor, cursor);
    ref.current.focus();
    expression.value = ref.current.value;
    suggest();
  };
  const keys = {
    ArrowDown: () => setActive((active + 1) % open.options.length),
    ArrowUp: () => setActive((active + open.options.length - 1) % open.options.length),
    Enter: () => accept(open.options[active]),
    Tab: () => accept(open.options[active]),
    Escape: () => setOpen(undefined),
  };
  return html`<div class="editor">
    <label for="cel">Selector: a CEL expression about <code>device</code></label>
    <textarea id="cel" ref=${ref} rows="4" spellcheck="false" autocomplete="off"
      aria-controls="options" aria-autocomplete="list" aria-activedescendant=${open ? `option-${active}` : undefined} value=${text}
      placeholder='device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100-SXM4-40GB"'
      onInput=${(event) => { expression.value = event.target.value; suggest(); }}
      onKeyDown=${(event) => { if (open && event.key in keys) { event.preventDefault(); keys[event.key](); } }}
      onBlur=${() => setTimeout(() => setOpen(undefined), 150)}></textarea>
    <ul id="options" class="options" role="listbox" aria-label="Completions" hidden=${!open}>
      ${(open?.options ?? []).map((option, index) => html`<li id=${`option-${index}`} role="option" aria-selected=${index === active}
        onMouseDown=${(event) => { event.preventDefault(); accept(option); }}><code>${option.text}</code> <small>${option.note}</small></li>`)}
    </ul>
  </div>`;
}

/** Asks once the keys rest; an answer to an older text is dropped. */
function evaluateLater(text) {
  if (!text.trim()) {
    answer.value = undefined;
    return undefined;
  }
  const controller = new AbortController();
  const timer = setTimeout(async () => {
    try {
      const body = { expression: text, most: MOST };
      const report = await request("/insight/cel", { method: "POST", body, signal: controller.signal });
      answer.value = { text, ...report };
    } catch (error) {
      if (!controller.signal.aborted) answer.value = { text, failure: error.message };
    }
  }, DELAY);
  return () => {
    clearTimeout(timer);
    controller.abort();
  };
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

/** Each problem with the line that it is in, and a caret under its character. */
function Problems({ text, problems }) {
  return html`<div role="alert" class="problems">${problems.map(({ offset, message }) => {
    if (offset < 0) return html`<p class="bad">${message}</p>`;
    const before = [...text].slice(0, offset).join("");
    const start = before.lastIndexOf("\n") + 1;
    const line = text.slice(start).split("\n")[0];
    return html`<pre class="bad">${line}\n${" ".repeat(before.length - start)}^ ${message}</pre>`;
  })}</div>`;
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
    <button type="submit" disabled=${settings.value.read_only}>Create</button>
    <details><summary>As a manifest</summary><pre>${JSON.stringify(made, null, 2)}</pre></details>
    <p aria-live="polite">${outcome}</p></form>`;
}
