// The console: the frame of every page, and the page that the address names.

import { render } from "preact";
import { useEffect } from "preact/hooks";
import { AnyKind, Kinds } from "./anykind.js";
import { CLAIM, Claims } from "./claims.js";
import { loading, trouble, world } from "./cluster.js";
import { counted } from "./columns.js";
import { Create } from "./create.js";
import { DeviceClasses } from "./deviceclasses.js";
import { kindOf, kinds, unknown, wantKinds } from "./discovery.js";
import { Events } from "./events.js";
import { Fleet } from "./fleetview.js";
import { Silence, silentSince } from "./heartbeat.js";
import { html } from "./html.js";
import { Help, HelpButton } from "./keys.js";
import { Learn } from "./learn.js";
import { place } from "./links.js";
import { begin, past } from "./moments.js";
import { Menu, NamespaceChoice, Navigation, PAGES } from "./navigation.js";
import { NODE } from "./nodepage.js";
import { Nodes } from "./nodes.js";
import { ObjectPage } from "./objectpage.js";
import { Overview } from "./overview.js";
import { POD, Pods } from "./pods.js";
import { Quotas } from "./quotas.js";
import { Search, SearchButton } from "./search.js";
import { Slices } from "./slicelist.js";
import { TimeBar, TimeButton } from "./timebar.js";
import { Workbench } from "./workbench.js";
import { WORKLOAD } from "./workloadpage.js";
import { Workloads } from "./workloads.js";

// Pages that are not about a kind; what follows in the address is theirs.
const VIEWS = {
  overview: () => html`<${Overview} />`,
  fleet: (name) => html`<${Fleet} name=${name} />`,
  cel: (name) => html`<${Workbench} name=${name} />`,
  learn: () => html`<${Learn} />`,
  create: () => html`<${Create} />`,
  kinds: () => html`<${Kinds} />`,
  workloads: () => html`<${Workloads} />`,
};
// Lists of a kind in a form of their own; all other kinds have the columns that the server gives them.
const LISTS = { nodes: Nodes, pods: Pods, claims: Claims, classes: DeviceClasses, slices: Slices, quotas: Quotas, events: Events };
const PARTS = { nodes: NODE, pods: POD, claims: CLAIM, deployments: WORKLOAD, statefulsets: WORKLOAD, replicasets: WORKLOAD, daemonsets: WORKLOAD, jobs: WORKLOAD };

function View({ page, name }) {
  if (page in VIEWS) return VIEWS[page](name);
  if (name) return html`<${ObjectPage} key=${`${page}/${name}`} page=${page} name=${name} parts=${PARTS[page]} />`;
  const Own = LISTS[page];
  return Own ? html`<${Own} />` : html`<${Other} key=${page} page=${page} />`;
}

function Other({ page }) {
  useEffect(() => void wantKinds(), []);
  const kind = kindOf(page);
  if (kind) return html`<${AnyKind} key=${kind.id} kind=${kind} />`;
  return html`<section><h1>${page}</h1><p class="empty">${unknown.value || (kinds.value ? "There is no such page, and the server has no such kind." : "loading…")}</p></section>`;
}

const titles = Object.fromEntries(Object.values(PAGES).flat());

/** The fragment of the address is the console's own: a jump to the content must not change it. */
function toContent(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function App() {
  const [page, ...rest] = place.value.split("/");
  const name = rest.join("/");
  document.title = [name, titles[page] ?? page, "dralab"].filter(Boolean).join(" · ");
  const devices = Object.values(world.value.totals.states).reduce((sum, count) => sum + count, 0);
  return html`<a class="skip" href="#main" onClick=${toContent}>Skip to the content</a>
    <header class="top"><${Menu} /><b>dralab</b><${NamespaceChoice} /><${SearchButton} /><${TimeButton} /><${HelpButton} />
      <p role="status">${loading.value ? "loading…" : `${counted(world.value.nodes.length, "node")}, ${counted(devices, "device")}`}</p></header>
    <${TimeBar} />
    <${Silence} />
    ${!past.value && !silentSince.value && trouble.value.map((text) => html`<p class="trouble" role="alert">${text}</p>`)}
    <div class="frame"><${Navigation} />
      <main id="main" tabindex="-1"><${View} page=${page} name=${name} /></main></div>
    <${Search} /><${Help} />`;
}

// The search knows short names of kinds; the first picture comes before them.
const LATER = 1000;
setTimeout(wantKinds, LATER);
begin();
render(html`<${App} />`, document.body);
