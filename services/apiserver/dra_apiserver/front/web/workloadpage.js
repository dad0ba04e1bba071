// The parts of a workload's page that other kinds do not have: its replicas, and what its deletion would make room for.

import { actionsOnPods } from "./actions.js";
import { html } from "./html.js";
import { past } from "./moments.js";
import { podsOf } from "./owned.js";
import { WhatIf } from "./preview.js";
import { Scaling } from "./scaling.js";

const SCALED = new Set(["Deployment", "StatefulSet", "ReplicaSet"]);

export const WORKLOAD = {
  acts: true,
  overview: (name, object, path) => object && html`<${Overview} object=${object} path=${path} />`,
};

function Overview({ object, path }) {
  if (past.value) return null;
  const { kind, metadata } = object;
  return html`${SCALED.has(kind) && html`<${Scaling} object=${object} path=${path} />`}
    <${WhatIf} actions=${[actionsOnPods(`Delete ${kind} ${metadata.name}`, path, () => podsOf(object))]} />`;
}
