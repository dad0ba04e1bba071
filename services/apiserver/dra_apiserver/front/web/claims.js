// The claims page, and one claim: its phases, devices and pods.

import { computed, signal } from "@preact/signals";
import { Age } from "./age.js";
import { useChanges } from "./answers.js";
import { claimPath, claims, devices, podPath, pods } from "./cluster.js";
import { Explanation } from "./explanation.js";
import { natural } from "./fleet.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { past } from "./moments.js";
import { claimPhases, firstUser, Timeline } from "./timeline.js";

const MOST = 500;
const filter = signal("");

/** As kubectl's STATE column has it. */
function state(claim) {
  const parts = [claim.allocated && "allocated", claim.pods.length > 0 && "reserved", claim.deleted && "deleted"];
  return parts.filter(Boolean).join(",") || "pending";
}

const sorted = computed(() => {
  const wanted = filter.value.trim().toLowerCase();
  return claims.value
    .filter((claim) => !wanted || `${claim.key} ${state(claim)} ${claim.results.map((one) => one.device).join(" ")}`.toLowerCase().includes(wanted))
    .sort((a, b) => Number(a.allocated) - Number(b.allocated) || natural(a.key, b.key));
});

export function Claims() {
  return html`<section aria-label="Claims"><h1 class="hidden">Claims</h1>
    <div class="controls"><label>Filter <input type="search" value=${filter} placeholder="name, state, device" onInput=${(event) => (filter.value = event.target.value)} /></label>
      <p>${claims.value.filter((claim) => !claim.allocated).length} are not allocated, ${claims.value.length} in all</p></div>
    <table class="rows"><thead><tr><th>Claim</th><th>State</th><th>Devices</th><th>Pods</th><th>Age</th></tr></thead><tbody>
      ${sorted.value.slice(0, MOST).map((claim) => html`<tr key=${claim.key}><td><${Link} to=${`claims/${claim.key}`}>${claim.key}<//></td>
        <td><span class=${`chip ${claim.allocated ? "used" : "waiting"}`}>${state(claim)}</span></td>
        <td>${claim.results.map((one) => `${one.pool}/${one.device}`).join(", ")}</td>
        <td>${claim.pods.map((name) => html`<${Link} to=${`pods/${claim.namespace}/${name}`}>${name}<//> `)}</td><td><${Age} of=${claim.created} /></td></tr>`)}
    </tbody></table>
    ${!claims.value.length && html`<p class="empty">There is no claim yet.</p>`}
  </section>`;
}

export function ClaimPage({ name }) {
  const claim = claims.value.find((one) => one.key === name);
  if (!claim) return html`<section><h1>Claim ${name}</h1><p class="empty">There is no such claim.</p></section>`;
  return html`<section aria-label=${`Claim ${name}`}>
    <h1>Claim ${name} <span class=${`chip ${claim.allocated ? "used" : "waiting"}`}>${state(claim)}</span></h1>
    <${Phases} claim=${claim} pod=${firstUser(claim, pods.value)} />
    <h2>Devices</h2>
    ${claim.results.length ? html`<table class="rows"><thead><tr><th>Request</th><th>Device</th><th>Node</th><th>State</th></tr></thead><tbody>
      ${claim.results.map((one) => html`<${Result} result=${one} />`)}</tbody></table>` : html`<p class="empty">None is allocated.</p>`}
    ${claim.pods.length > 0 && html`<h2>Reserved for</h2><ul>${claim.pods.map((pod) => html`<li><${Link} to=${`pods/${claim.namespace}/${pod}`}>${pod}<//></li>`)}</ul>`}
    ${!claim.allocated && !past.value && html`<${Explanation} of=${`claim/${name}`} version=${claim.pods.length} />`}
  </section>`;
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
