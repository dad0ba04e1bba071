// The nodes page: each node with its devices, pods and taints.

import { useMemo } from "preact/hooks";
import { labelText, pods, world } from "./cluster.js";
import { ageColumn, counted, nameColumn } from "./columns.js";
import { STATES } from "./fleet.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { List } from "./list.js";

export const nodeStatus = (node) => [node.ready ? "Ready" : "NotReady", node.cordoned && "SchedulingDisabled"].filter(Boolean).join(",");
const taken = ({ boards }) => boards.filter(({ state }) => state === "used" || state === "waiting").length;
const states = ({ boards }) => STATES.map((state) => [state, boards.filter((board) => board.state === state).length]).filter(([, count]) => count);

const COLUMNS = [
  nameColumn("Node", ({ node }) => `nodes/${node.name}`, ({ node }) => node.name),
  { id: "status", title: "Status", text: ({ node }) => nodeStatus(node), cell: ({ node }) => html`<span class=${`chip ${node.ready ? (node.cordoned ? "tainted" : "free") : "unhealthy"}`}>${nodeStatus(node)}</span>` },
  { id: "devices", title: "Devices", text: ({ node }) => states(node).map(([state, count]) => `${count} ${state}`).join(" "), value: ({ node }) => node.boards.length,
    cell: ({ node }) => states(node).map(([state, count]) => html`<span class=${`chip ${state}`}>${state} <b>${count}</b></span> `) },
  { id: "taken", title: "Taken", kind: "number", value: ({ node }) => (node.boards.length ? taken(node) / node.boards.length : -1), text: ({ node }) => (node.boards.length ? `${taken(node)} of ${node.boards.length}` : "") },
  { id: "pods", title: "Pods", kind: "number", text: ({ count }) => String(count), value: ({ count }) => count, cell: ({ node, count }) => html`<${Link} to="pods" more=${{ q: node.name }}>${count}<//>` },
  { id: "taints", title: "Taints", wide: true, text: ({ node }) => node.taints.join(", ") },
  { id: "version", title: "Version", wide: true, text: ({ node }) => node.version },
  { ...ageColumn, value: ({ node }) => -Date.parse(node.created), cell: ({ node }) => ageColumn.cell(node) },
];

export function Nodes() {
  const nodes = world.value.nodes;
  const rows = useMemo(() => {
    const counts = new Map();
    for (const pod of pods.value) counts.set(pod.node, (counts.get(pod.node) ?? 0) + 1);
    return nodes.filter(({ created }) => created).map((node) => ({ node, count: counts.get(node.name) ?? 0, labels: labelText(node) }));
  }, [nodes, pods.value]);
  const down = rows.filter(({ node }) => !node.ready).length;
  return html`<section aria-label="Nodes"><h1>Nodes</h1>
    <${List} label="Nodes" columns=${COLUMNS} rows=${rows} id=${({ node }) => node.name} hint="name, status, taint" empty="There is no node yet."
      note=${[counted(rows.length, "node"), down && `${down} not ready`].filter(Boolean).join(", ")} />
  </section>`;
}
