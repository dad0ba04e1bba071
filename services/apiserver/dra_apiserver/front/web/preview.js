// "What if": an action on a node, device or pod, what the scheduler would do then, and only after that the button that does it.

import { useState } from "preact/hooks";
import { cordon, KEY, untaint, untaintNode } from "./actions.js";
import { request } from "./api.js";
import { pods, world } from "./cluster.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { readOnly } from "./moments.js";

/** `device` or `node` is that of which something may be undone, if it is about one. `title` replaces the heading, and `main` makes the first action the main one. */
export function WhatIf({ actions, device, node, title, main }) {
  const [preview, setPreview] = useState(undefined);
  const [outcome, setOutcome] = useState("");
  const report = (work) => work.then(setOutcome, (error) => setOutcome(error.message));
  const ask = async (action) => {
    setOutcome("");
    setPreview({ action });
    try {
      const path = `/insight/plan/${action.question}`;
      const body = typeof action.body === "function" ? await action.body() : action.body;
      setPreview({ action, answer: await request(path, { method: "POST", body }) });
    } catch (error) {
      setPreview({ action, problem: error.message });
    }
  };
  const act = () => {
    setPreview(undefined);
    report(preview.action.act(pods.value));
  };
  return html`<section class=${title ? "remedies" : "whatif"} aria-label=${title ?? "What if"}>${!title && html`<h3>What if…</h3>`}
    <p class="controls">${actions.map((action, index) => html`<button class=${main && !index ? "primary" : undefined} aria-pressed=${preview?.action.name === action.name} onClick=${() => ask(action)}>${action.name}</button>`)}</p>
    ${preview && html`<${Preview} preview=${preview} act=${act} />`}
    ${(device || node) && !readOnly.value && html`<${Undo} device=${device} node=${node} report=${report} />`}
    <p role="status">${outcome}</p></section>`;
}

function Preview({ preview: { action, answer, problem }, act }) {
  if (problem) return html`<p class="bad">No preview: ${problem}</p>`;
  if (!answer) return html`<p class="note">Asking the scheduler…</p>`;
  if (action.question === "change") return html`<${Comparison} action=${action} answer=${answer} act=${act} />`;
  const moves = answer.moves ?? [];
  return html`<div class="preview"><p><b>${answer.moved ?? 0}</b> pods would move, <b>${answer.stuck ?? 0}</b> would be stuck.</p>
    ${moves.length > 0 && html`<table><thead><tr><th>Pod</th><th>From</th><th>To</th></tr></thead><tbody>
      ${moves.map((one) => html`<tr><td><${Link} to=${`pods/${one.pod}`}>${one.pod}<//></td><td>${one.before}</td><td>${one.after || html`<span class="bad">${one.stuck}</span>`}</td></tr>`)}</tbody></table>`}
    ${Object.entries(answer.preempted ?? {}).map(([pod, by]) => html`<p class="bad">${pod} would be preempted by ${by}</p>`)}
    <${Uncertain} lines=${answer.uncertain} />
    ${action.act && !readOnly.value && html`<button class="do" onClick=${act}>${action.name} now</button>`}</div>`;
}

/** Who would be placed then: all pods with claims, and those that wait, are placed again. */
function Comparison({ action, answer, act }) {
  const place = ({ node, message }) => node || html`<span class="bad">${message}</span>`;
  return html`<div class="preview"><p><b>${answer.after}</b> of ${answer.pods} ${action.others ?? (answer.pods === 1 ? "pod" : "pods")} would be placed, <b>${answer.before}</b> ${action.changes ? "now" : "without them"}.</p>
    ${answer.changed?.length > 0 && html`<table><thead><tr><th>Pod</th>${(action.changes ? ["Now", "Then"] : ["Without", "With"]).map((name) => html`<th>${name}</th>`)}</tr></thead><tbody>
      ${answer.changed.map((one) => html`<tr><td><${Link} to=${`pods/${one.pod}`}>${one.pod}<//></td><td>${place(one.before)}</td><td>${place(one.after)}</td></tr>`)}</tbody></table>`}
    ${action.note && html`<p class="note">${action.note}</p>`}
    <${Uncertain} lines=${answer.uncertain} />
    ${action.act && !readOnly.value && html`<button class="do" onClick=${act}>${action.name} now</button>`}
  </div>`;
}

/** What the cluster lacks, or what is assumed of it. */
export function Uncertain({ lines }) {
  return html`${(lines ?? []).map((line) => html`<p class="note">Uncertain: ${line}</p>`)}`;
}

/** What takes back what was done. */
function Undo({ device, node: chosen, report }) {
  const node = chosen ?? world.value.nodes.find((one) => one.name === device.node);
  const rules = (device?.taints ?? []).map((taint) => taint.rule).filter(Boolean);
  return html`<p class="controls">
    ${node?.cordoned && html`<button onClick=${() => report(cordon(node.name, false))}>Uncordon node ${node.name}</button>`}
    ${node?.taints.some((one) => one.startsWith(`${KEY}:`)) && html`<button onClick=${() => report(untaintNode(node.name))}>Remove taint of node ${node.name}</button>`}
    ${rules.map((rule) => html`<button onClick=${() => report(untaint(rule))}>Remove taint of rule ${rule}</button>`)}</p>`;
}
