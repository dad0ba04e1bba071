// What a container got with its devices: the devices of its claims, and the device nodes, mounts, variables and hooks
// that they brought. The pod's node knows; nodes of other clusters do not say.

import { useAnswer } from "./answers.js";
import { html } from "./html.js";
import { Link } from "./links.js";

/** The report of a pod's containers: `undefined` while it is asked for, `null` where the node does not say. */
export function useInjected(pod) {
  const path = `/api/v1/nodes/${pod.node}/proxy/containerEdits/${pod.namespace}/${pod.name}`;
  const [report, error] = useAnswer(pod.node ? path : "", `${pod.phase} ${pod.statuses.map((one) => one.containerID).join()}`);
  return error || !pod.node ? null : report;
}

export function InjectedDevices({ namespace, report }) {
  if (!report?.devices.length && !report?.injected.length) return null;
  return html`<details class="injected"><summary>What its devices brought: ${summary(report)}</summary>
    <table class="rows"><thead><tr><th>Claim</th><th>Request</th><th>Device</th><th>CDI</th></tr></thead><tbody>
      ${report.devices.map((one) => html`<tr><td><${Link} to=${`claims/${namespace}/${one.claim}`}>${one.claim}<//></td>
        <td>${(one.requests ?? []).join(", ")}</td><td>${one.driver}/${one.pool}/${one.device}${one.shareID ? ` share ${one.shareID}` : ""}</td>
        <td>${(one.cdiDevices ?? []).join(" ")}</td></tr>`)}
      ${Object.entries(report.pluginDevices).map(([resource, ids]) => html`<tr><td>device plugin</td><td>${resource}</td><td>${ids.join(", ")}</td><td></td></tr>`)}
    </tbody></table>
    <table class="rows"><thead><tr><th>Kind</th><th>What</th><th>From</th></tr></thead><tbody>
      ${rows(report).map(({ kind, text, from }) => html`<tr><td>${kind}</td><td><code>${text}</code></td><td>${from}</td></tr>`)}
    </tbody></table>
    ${report.injected.filter((one) => one.problem).map((one) => html`<p class="bad">${one.problem}</p>`)}
  </details>`;
}

const KINDS = {
  deviceNodes: ["device node", (one) => arrow(one.hostPath, one.path) + (one.permissions ? ` (${one.permissions})` : "")],
  mounts: ["mount", (one) => arrow(one.hostPath, one.containerPath) + (one.options ? ` (${one.options.join(",")})` : "")],
  env: ["variable", (one) => one],
  hooks: ["hook", (one) => `${one.hookName}: ${(one.args ?? [one.path]).join(" ")}`],
  netDevices: ["network device", (one) => arrow(one.hostInterfaceName, one.name)],
  additionalGids: ["group", String],
  intelRdt: ["Intel RDT", (one) => JSON.stringify(one)],
};
const arrow = (from, to) => (from && from !== to ? `${from} → ${to}` : to);

/** Each edit once, kind by kind, with the devices that ask for it. */
function rows(report) {
  const names = new Map(report.devices.flatMap((one) => (one.cdiDevices ?? []).map((id) => [id, one.device])));
  const found = new Map();
  for (const [field, [kind, text]] of Object.entries(KINDS)) {
    for (const { name, edits } of report.injected) {
      for (const one of [edits?.[field] ?? []].flat()) {
        const key = `${kind} ${text(one)}`;
        if (!found.has(key)) found.set(key, { kind, text: text(one), by: new Set() });
        found.get(key).by.add(name ? (names.get(name) ?? name) : "device plugins");
      }
    }
  }
  const all = report.injected.length;
  return [...found.values()].map(({ kind, text, by }) => ({ kind, text, from: all > 1 && by.size === all ? "all" : [...by].join(", ") }));
}

function summary(report) {
  const counts = new Map();
  for (const { kind } of rows(report)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${count} ${kind}${count === 1 ? "" : "s"}`).join(", ") || "nothing";
}
