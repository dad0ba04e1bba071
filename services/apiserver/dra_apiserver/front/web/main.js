// The console: its navigation, and the view that the address names.

import { render } from "preact";
import { ClaimPage, Claims } from "./claims.js";
import { loading, pods, trouble, world } from "./cluster.js";
import { Fleet } from "./fleetview.js";
import { html } from "./html.js";
import { Learn } from "./learn.js";
import { address, place } from "./links.js";
import { begin, past } from "./moments.js";
import { PodPage, Pods } from "./pods.js";
import { settings } from "./settings.js";
import { TimeBar } from "./timebar.js";
import { Workbench } from "./workbench.js";

const VIEWS = {
  fleet: { title: "Fleet", view: (name) => html`<${Fleet} name=${name} />` },
  pods: { title: "Pods", view: (name) => (name ? html`<${PodPage} key=${name} name=${name} />` : html`<${Pods} />`) },
  claims: { title: "Claims", view: (name) => (name ? html`<${ClaimPage} key=${name} name=${name} />` : html`<${Claims} />`) },
  cel: { title: "CEL", view: (name) => html`<${Workbench} name=${name} />` },
};
// Where the server has lessons.
const LEARN = { title: "Learn", view: () => html`<${Learn} />` };

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function App() {
  const [first, ...rest] = place.value.split("/");
  const views = settings.value.learn ? { learn: LEARN, ...VIEWS } : VIEWS;
  const chosen = first in views ? first : "fleet";
  document.title = `${views[chosen].title} · dralab`;
  const waiting = pods.value.filter((pod) => pod.phase === "Pending").length;
  const devices = Object.values(world.value.totals.states).reduce((sum, count) => sum + count, 0);
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header class="top"><b>dralab</b>
      <nav aria-label="Views">${Object.entries(views).map(([name, { title }]) => html`<a href=${address(name)} aria-current=${name === chosen ? "page" : undefined}>${title}${name === "pods" && waiting > 0 ? html` <span class="count">${waiting}</span>` : ""}</a>`)}</nav>
      <p role="status">${loading.value ? "loading…" : `${count(world.value.nodes.length, "node")}, ${count(devices, "device")}`}</p></header>
    <${TimeBar} />
    ${!past.value && trouble.value.map((text) => html`<p class="trouble" role="alert">${text}</p>`)}
    <main id="main" tabindex="-1">${views[chosen].view(rest.join("/"))}</main>`;
}

begin();
render(html`<${App} />`, document.body);
