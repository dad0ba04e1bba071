// The overview: how much of the fleet is in use, over time and by model, what waits, what is lost, and what went wrong lately.

import { useEffect } from "preact/hooks";
import { Age } from "./age.js";
import { Chart } from "./chart.js";
import { loading, pods, world } from "./cluster.js";
import { counted, within } from "./columns.js";
import { html } from "./html.js";
import { incidents, KINDS, readIncidents } from "./incidents.js";
import { Link } from "./links.js";
import { instant, look, past, range } from "./moments.js";
import { FEW_NODES, Help, HELPED, reason, unscheduled } from "./pods.js";
import { quantity, readable } from "./quantity.js";
import { hasCapacity } from "./segments.js";
import { inUse, ORDER, tally, together } from "./tally.js";
import { duration, since } from "./times.js";
import { useUtilisation } from "./utilisation.js";

const MOST_LINES = 6;
const MOST_ROWS = 6;
/** The least time that the chart shows. */
const SHORTEST = 5 * 60_000;
/** How often the server is asked for incidents. */
const AGAIN = 5000;

export function Overview() {
  const models = tally(world.value.nodes);
  const all = together(models);
  const waiting = within(pods.value).filter((pod) => pod.phase === "Pending").sort((a, b) => a.created.localeCompare(b.created));
  return html`<section class="overview" aria-label="Overview"><h1>Overview</h1>
    <${Figures} all=${all} waiting=${waiting} />
    <${Utilisation} models=${models} />
    <div class="columns">
      <${Waiting} pods=${waiting} />
      <${Lost} />
      <${Incidents} />
    </div></section>`;
}

const grouped = (number) => number.toLocaleString("en");
const percent = (part, total) => (total ? Math.round((100 * part) / total) : 0);

function Figures({ all, waiting }) {
  const away = world.value.nodes.filter((node) => !node.ready).length;
  const sick = (all.states.unhealthy ?? 0) + (all.states.tainted ?? 0);
  const troubles = [away && `${counted(away, "node")} not ready`, all.states.tainted && `${all.states.tainted} tainted`, all.states.unhealthy && `${all.states.unhealthy} unhealthy`].filter(Boolean);
  return html`<div class="figures">
    <${Figure} title="In use" value=${`${percent(inUse(all), all.total)} %`} note=${`${grouped(inUse(all))} of ${grouped(all.total)} devices`} to="fleet"><${States} of=${all} /><//>
    <${Figure} title="Waiting" value=${grouped(waiting.length)} kind=${waiting.length ? "waiting" : ""} note=${waiting.length ? `${waiting.length === 1 ? "a pod" : "pods"}, for up to ${since(waiting[0].created, instant())}` : "No pod waits."} to="pods" />
    <${Figure} title="Stranded" value=${grouped(all.stranded)} kind=${all.stranded ? "stranded" : ""} note=${all.stranded ? "devices with a remainder that no request can use" : "No remainder is lost."} to="fleet" more=${{ state: "stranded" }} />
    <${Figure} title="Out of order" value=${grouped(sick + away)} kind=${sick + away ? "unhealthy" : ""} note=${troubles.join(", ") || "All nodes and devices are well."} to=${away && !sick ? "nodes" : "fleet"} />
  </div>`;
}

function Figure({ title, value, note, kind, to, more, children }) {
  return html`<article class=${`card figure ${kind ?? ""}`}><h2><${Link} to=${to} more=${more}>${title}<//></h2>
    <p class="value">${value}</p>${children}<p class="note">${note}</p></article>`;
}

/** A bar of the states of devices. */
function States({ of }) {
  const text = ORDER.filter((state) => of.states[state]).map((state) => `${of.states[state]} ${state}`).join(", ");
  return html`<span class="states" role="img" aria-label=${text || "no device"} title=${text}>${ORDER.filter((state) => of.states[state]).map((state) => html`<i class=${state} style=${{ flexGrow: of.states[state] }}></i>`)}</span>`;
}

function Utilisation({ models }) {
  const points = useUtilisation(!loading.value && models.length > 0);
  const shown = models.slice(0, MOST_LINES);
  const to = Math.max(Date.now(), points.at(-1)?.time ?? 0);
  const from = Math.min(to - SHORTEST, Math.max(range.value?.oldest.time ?? to, points[0]?.time - SHORTEST || 0));
  const lines = shown.map((one) => ({ name: one.model, points: lineOf(one, points, from, to) }));
  return html`<section class="card utilisation" aria-label="Utilisation"><h2>Utilisation</h2>
    <div class="beside">
      <${Chart} lines=${lines} from=${from} to=${to} mark=${past.value?.time} label=${`Devices in use over the last ${duration(to - from)}: ${lines.map(({ name, points: all }) => `${name} ${Math.round(all.at(-1).share * 100)} percent`).join(", ")}`} />
      <ul class="models">${shown.map((one, index) => html`<li key=${one.model}><i class=${`key series-${index + 1}`}></i><${Link} to="fleet" more=${{ q: one.model }}>${one.model}<//>
        <span><b>${percent(inUse(one), one.total)} %</b> ${grouped(inUse(one))} of ${grouped(one.total)}</span><${States} of=${one} /></li>`)}</ul>
    </div>
    ${!models.length && html`<p class="empty">No driver has published a device yet.</p>`}
    ${models.length > MOST_LINES && html`<p class="note">${models.length - MOST_LINES} more models are not shown.</p>`}</section>`;
}

/** A model's shares over time. Without history there is only now. */
function lineOf({ model, total, ...rest }, points, from, to) {
  const share = (used) => Math.min(1, Math.max(0, used / (total || 1)));
  const now = { time: to, share: share(inUse(rest)) };
  const all = points.map(({ time, used }) => ({ time, share: share(used.get(model) ?? 0) }));
  if (!all.length) return [{ ...now, time: from }, now];
  const first = all.findLastIndex(({ time }) => time <= from);
  return [{ time: from, share: first < 0 ? 0 : all[first].share }, ...all.slice(first + 1)];
}

function Waiting({ pods: waiting }) {
  const helped = past.value || world.value.nodes.length > FEW_NODES ? 0 : HELPED;
  return html`<section class="card" aria-label="What waits"><h2>What waits</h2>
    ${waiting.length ? html`<ul class="entries">${waiting.slice(0, MOST_ROWS).map((pod, index) => html`<li key=${pod.key}><p><${Link} to=${`pods/${pod.key}`}>${pod.key}<//> <small><${Age} of=${pod.created} /></small></p><p class="note">${reason(pod)}</p>${index < helped && unscheduled(pod) && html`<${Help} pod=${pod} />`}</li>`)}</ul>` : html`<p class="empty">No pod waits.</p>`}
    <${More} count=${waiting.length - MOST_ROWS} to="pods" /></section>`;
}

/** Nodes and devices that cannot be used, and devices with a remainder that nothing can use. */
function Lost() {
  const nodes = world.value.nodes.flatMap((node) => [...(node.ready ? [] : [{ to: `nodes/${node.name}`, name: node.name, kind: "unhealthy", text: "not ready" }]), ...(node.cordoned ? [{ to: `nodes/${node.name}`, name: node.name, kind: "tainted", text: "cordoned" }] : [])]);
  const rows = [...nodes, ...troubles("unhealthy"), ...troubles("tainted"), ...stranded()];
  return html`<section class="card" aria-label="What is lost"><h2>Out of order, stranded</h2>
    ${rows.length ? html`<ul class="entries">${rows.slice(0, MOST_ROWS).map((row) => html`<li><p><${Link} to=${row.to} more=${row.more}>${row.name}<//> <span class=${`chip ${row.kind}`}>${row.text}</span></p>${row.note && html`<p class="note">${row.note}</p>`}</li>`)}</ul>` : html`<p class="empty">All nodes and devices are well, and none has a remainder that is lost.</p>`}
    <${More} count=${rows.length - MOST_ROWS} to="fleet" /></section>`;
}

const boards = () => world.value.nodes.flatMap((node) => node.boards.filter(hasCapacity));
const entry = (board, kind, note) => ({ to: `fleet/${board.node}`, name: `${board.node} ${board.name}`, kind, text: kind, note });

const troubles = (state) =>
  boards()
    .filter((board) => board.state === state)
    .map((board) => entry(board, state, [...new Set(board.devices.flatMap((device) => device.taints.map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`)))].join(", ")));

const stranded = () => boards().filter((board) => board.stranded).map((board) => entry(board, "stranded", remainder(board)));

/** What is left of a device, and what of it is used up. */
function remainder({ levels, devices: [device] }) {
  const amounts = Object.keys(levels).length
    ? Object.entries(levels).filter(([name]) => !/\d$/.test(name)).map(([name, { total, used }]) => [name, total, total - used])
    : Object.entries(device.capacity).map(([name, { value }]) => [name, quantity(value), quantity(value) - device.holders.reduce((sum, holder) => sum + quantity(holder.consumed[name] ?? "0"), 0)]);
  const left = amounts.filter(([, , rest]) => rest > 0).slice(0, 2).map(([name, , rest]) => `${readable(rest)} of ${name}`);
  const gone = amounts.filter(([, total, rest]) => total > 0 && rest <= 0).map(([name]) => name).slice(0, 3);
  return [left.length && `left: ${left.join(", ")}`, gone.length && `used up: ${gone.join(", ")}`].filter(Boolean).join("; ");
}

/** Incidents of the same text once, with their number: the latest first. */
function gathered(all) {
  const found = new Map();
  for (const one of all) {
    if (!found.has(one.text)) found.set(one.text, { ...one, count: 0 });
    found.get(one.text).count += 1;
  }
  return [...found.values()];
}

function Incidents() {
  useEffect(() => {
    const read = () => look().then(() => range.value && readIncidents(range.value.newest.revision)).catch(() => {});
    read();
    const timer = setInterval(read, AGAIN);
    return () => clearInterval(timer);
  }, []);
  const until = instant();
  const found = gathered((incidents.value ?? []).filter(({ time }) => time <= until).reverse());
  return html`<section class="card" aria-label="Recent incidents"><h2>Recent incidents</h2>
    ${found.length ? html`<ul class="entries">${found.slice(0, MOST_ROWS).map((one) => html`<li><p><span class=${`chip incident-${one.kind}`}>${KINDS[one.kind]}</span>${one.count > 1 ? html` <b>${one.count}×</b>` : ""} <small><${Age} of=${new Date(one.time).toISOString()} /> ago</small></p><p class="note">${one.text}</p></li>`)}</ul>` : html`<p class="empty">${range.value ? "Nothing went wrong in the time that the server remembers." : "This server remembers nothing."}</p>`}
    <${More} count=${found.length - MOST_ROWS} to="events" /></section>`;
}

function More({ count, to }) {
  return count > 0 ? html`<p><${Link} to=${to}>${count} more<//></p>` : null;
}
