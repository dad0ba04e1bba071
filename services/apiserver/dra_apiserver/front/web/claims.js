// The claims page, and one claim: its phases, devices and pods.

import { computed } from "@preact/signals";
import { useChanges } from "./answers.js";
import { claimPath, claims, devices, podPath, pods } from "./cluster.js";
import { ageColumn, nameColumn, within } from "./columns.js";
import { Explanation } from "./explanation.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { List } from "./list.js";
import { past } from "./moments.js";
import { grouped, keptOrder } from "./order.js";
import { claimPhases, firstUser, Timeline } from "./timeline.js";

/** As kubectl's STATE column has it. */
function state(claim) {
  const parts = [claim.allocated && "allocated", claim.pods.length > 0 && "reserved", claim.deleted && "deleted"];
  return parts.filter(Boolean).join(",") || "pending";
}

const byName = keptOrder((claim) => claim.key);
const sorted = computed(() => grouped(byName(claims.value), (claim) => Number(claim.allocated)));

const COLUMNS = [
  nameColumn("Claim", (claim) => `claims/${claim.key}`, (claim) => claim.key),
  { id: "state", title: "State", text: state, cell: (claim) => html`<${State} claim=${claim} />` },
  { id: "devices", title: "Devices", text: (claim) => claim.results.map((one) => `${one.pool}/${one.device}`).join(", ") },
  { id: "pods", title: "Pods", text: (claim) => claim.pods.join(" "), cell: (claim) => claim.pods.map((name) => html`<${Link} to=${`pods/${claim.namespace}/${name}`}>${name}<//> `) },
  ageColumn,
];

const State = ({ claim }) => html`<span class=${`chip ${claim.allocated ? "used" : "waiting"}`}>${state(claim)}</span>`;

export function Claims() {
  const rows = within(sorted.value);
  return html`<section aria-label="Claims"><h1>Claims</h1>
    <${List} label="Claims" columns=${COLUMNS} rows=${rows} id=${(claim) => claim.key} hint="name, state, device" empty="There is no claim yet."
      note=${`${rows.filter((claim) => !claim.allocated).length} are not allocated, ${rows.length} in all`} />
  </section>`;
}

/** The parts of a claim's page that other kinds do not have. */
export const CLAIM = {
  title: "Claim",
  chip: (name) => html`<${Chip} name=${name} />`,
  overview: (name) => html`<${Overview} name=${name} />`,
};

const found = (name) => claims.value.find((one) => one.key === name);

function Chip({ name }) {
  const claim = found(name);
  return claim ? html`<${State} claim=${claim} />` : null;
}

function Overview({ name }) {
  const claim = found(name);
  if (!claim) return null;
  return html`<${Phases} claim=${claim} pod=${firstUser(claim, pods.value)} />
    <h2>Devices</h2>
    ${claim.results.length ? html`<table class="rows devices"><thead><tr><th>Request</th><th>Device</th><th>Node</th><th>State</th></tr></thead><tbody>
      ${claim.results.map((one) => html`<${Result} result=${one} />`)}</tbody></table>` : html`<p class="empty">None is allocated.</p>`}
    ${claim.pods.length > 0 && html`<h2>Reserved for</h2><ul>${claim.pods.map((pod) => html`<li><${Link} to=${`pods/${claim.namespace}/${pod}`}>${pod}<//></li>`)}</ul>`}
    ${!claim.allocated && !past.value && html`<${Explanation} of=${`claim/${name}`} version=${claim.pods.length} />`}`;
}

function Phases({ claim, pod }) {
  const version = `${claim.allocated} ${claim.pods.length} ${pod?.phase}`;
  const ofClaim = useChanges(claimPath(claim), version);
  const ofPod = useChanges(pod ? podPath(pod) : "", version);
  return html`<${Timeline} phases=${claimPhases(claim, pod, ofClaim, ofPod)} />`;
}

function Result({ result }) {
  const device = devices.value.get(`${result.driver}/${result.pool}/${result.device}`);
  return html`<tr><td>${result.request}</td><td>${result.driver}/${result.pool}/${result.device}</td><td>${device?.node ?? "unknown"}</td>
    <td>${device ? html`<span class=${`chip ${device.state}`}>${device.state}</span>` : "is not published any more"}</td></tr>`;
}
