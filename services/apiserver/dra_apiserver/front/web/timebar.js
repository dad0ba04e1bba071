// The slider over the past, and what differs between two of its moments, with who changed it.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { informers } from "./cluster.js";
import { html } from "./html.js";
import { incidents, KINDS, readIncidents } from "./incidents.js";
import { asked, failure, changes, look, now, past, play, range, seek, speed } from "./moments.js";
import { duration } from "./times.js";

const SPEEDS = [1, 10, 60];
const MOST = 500;
const LOOK = 5000;
// Marks have so many places, and so near to a moment an incident is its own, in milliseconds.
const PLACES = 400;
const NEAR = 1000;
/** The kinds of incidents that are not shown. */
const hidden = signal(new Set());
/** The moment that others are compared with. */
const mark = signal(undefined);
const shown = signal(asked !== "");

const looking = () => look().then(() => readIncidents(range.value.newest.revision));

/** Opens and closes the bar: a part of the page's head. */
export function TimeButton() {
  if (!range.value) return null;
  const open = () => {
    shown.value = !shown.value;
    if (shown.value) looking().catch((error) => (failure.value = error.message));
    else now();
  };
  return html`<button aria-expanded=${shown.value} class=${shown.value ? "primary" : undefined} onClick=${open}>${shown.value ? "Back to now" : "Look back"}</button>`;
}

export function TimeBar() {
  const known = range.value;
  useEffect(() => {
    // Behind a page that shows now, the past grows.
    const timer = setInterval(() => shown.value && looking().catch(() => {}), LOOK);
    if (shown.value) looking().catch(() => {});
    return () => clearInterval(timer);
  }, []);
  // A moment can also be chosen on another page, such as in the history of an object.
  if (past.value && !shown.value) shown.value = true;
  if (!known) return failure.value && html`<p class="trouble" role="alert">${failure.value}</p>`;
  if (!shown.value) return null;
  return html`<section class="timebar" aria-label="Time">
    <${Slider} known=${known} />
    ${mark.value && html`<${Comparison} from=${mark.value} to=${past.value ?? known.newest} />`}
  </section>`;
}

function Slider({ known }) {
  const newest = Math.max(known.newest.time, known.oldest.time + 1);
  const time = past.value?.time ?? newest;
  const text = past.value ? `${clock(time)}, ${duration(Date.now() - time)} ago, revision ${past.value.revision}` : "now";
  const chosen = useMemo(() => incidents.value?.filter(({ kind }) => !hidden.value.has(kind)) ?? [], [incidents.value, hidden.value]);
  const reach = { from: known.oldest.time, to: Math.max(newest, time) };
  return html`<div class="track"><${Marks} incidents=${chosen} reach=${reach} />
      <input type="range" aria-label="Moment" min=${reach.from} max=${reach.to} step="1" value=${time}
        aria-valuetext=${text} onInput=${(event) => { play(0); seek(Number(event.target.value)); }}
        onKeyDown=${(event) => step(event, time, known)} />
      <p class="ends"><span>${clock(reach.from)}</span><span>${clock(newest)}</span></p></div>
    <output>${text}</output>
    <span role="group" aria-label="Play">
      <button disabled=${!past.value || !speed.value} onClick=${() => play(0)}>Pause</button>
      ${SPEEDS.map((factor) => html`<button disabled=${!past.value} aria-pressed=${speed.value === factor} onClick=${() => play(factor)}>Play ${factor}×</button>`)}
      <label>at <input type="number" class="speed" aria-label="Speed" min="0.1" step="any" disabled=${!past.value} value=${speed.value || ""}
        onChange=${(event) => play(Math.max(0, Number(event.target.value)))} />×</label>
    </span>
    <button onClick=${() => (mark.value = mark.value ? undefined : (past.value ?? known.newest))}>${mark.value ? "Stop comparing" : "Compare with this moment"}</button>
    <${Incidents} incidents=${chosen} time=${time} />
    ${failure.value && html`<p class="bad" role="alert">${failure.value}</p>`}`;
}

/** The incidents as marks above the slider: at most one of a kind at a place, so that thousands can be drawn. */
function Marks({ incidents, reach }) {
  const places = new Map();
  for (const one of incidents) {
    const place = Math.round((PLACES * (one.time - reach.from)) / (reach.to - reach.from || 1));
    if (place < 0 || place > PLACES) continue;
    const key = `${one.kind} ${place}`;
    const known = places.get(key);
    if (known) known.count += 1;
    else places.set(key, { ...one, place, count: 1 });
  }
  return html`<svg class="marks" viewBox=${`0 0 ${PLACES} 10`} preserveAspectRatio="none" aria-hidden="true">${[...places].sort(([, a], [, b]) => seldomLast(a, b)).map(([key, one]) => html`<rect key=${key} class=${one.kind} x=${one.place - 0.7} width="2" height="10" onClick=${() => seek(one.time)}><title>${`${clock(one.time)} ${one.text}${one.count > 1 ? ` and ${one.count - 1} more` : ""}`}</title></rect>`)}</svg>`;
}

// A fault is drawn above the many warnings that follow from it.
const DRAWN = ["warning", "scheduling", "restart", "eviction", "fault"];
const seldomLast = (a, b) => DRAWN.indexOf(a.kind) - DRAWN.indexOf(b.kind);

/** The incidents by keyboard: the one before the moment that is shown, the one after, and which kinds there are. */
function Incidents({ incidents: found, time }) {
  const before = found.findLast((one) => one.time < time);
  const after = past.value && found.find((one) => one.time > time);
  const here = past.value && found.findLast((one) => Math.abs(one.time - time) < NEAR);
  const counts = new Map();
  for (const { kind } of incidents.value ?? []) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const toggle = (kind) => (hidden.value = new Set(hidden.value.has(kind) ? [...hidden.value].filter((one) => one !== kind) : [...hidden.value, kind]));
  const move = (one) => () => {
    play(0);
    seek(one.time);
  };
  return html`<div class="incidents"><span role="group" aria-label="Incidents"><button disabled=${!before} onClick=${before && move(before)}>Incident before</button><button disabled=${!after} onClick=${after && move(after)}>Incident after</button></span>
    ${[...counts].map(([kind, count]) => html`<button class=${`chip incident ${kind}`} aria-pressed=${!hidden.value.has(kind)} onClick=${() => toggle(kind)}>${KINDS[kind]} <b>${count}</b></button>`)}
    ${incidents.value && !incidents.value.length && html`<span class="note">No incident in this time.</span>`}
    ${here && html`<p class="what" aria-live="polite">${here.text}</p>`}</div>`;
}

const DAY = 86_400_000;
/** The time of a moment, with its day unless that was less than a day ago. */
const clock = (time) => (Date.now() - time < DAY ? new Date(time).toLocaleTimeString() : new Date(time).toLocaleString());

/** Arrow keys go by a second, with Shift by a minute: a millisecond is no step. */
function step(event, time, known) {
  const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
  if (!way) return;
  event.preventDefault();
  const wanted = time + way * (event.shiftKey ? 60_000 : 1000);
  play(0);
  seek(Math.min(known.newest.time, Math.max(known.oldest.time, wanted)));
}

function Comparison({ from, to }) {
  const [first, last] = from.time <= to.time ? [from, to] : [to, from];
  const [rows, setRows] = useState(undefined);
  useEffect(() => {
    let current = true;
    const done = (found) => current && setRows(found);
    differences(first.revision, last.revision).then(done, (error) => done([{ key: error.message, fields: [], who: "" }]));
    return () => (current = false);
  }, [first.revision, last.revision]);
  return html`<div class="comparison" tabindex="0" role="region" aria-label="Comparison"><h2>What changed from ${clock(first.time)} to ${clock(last.time)}</h2>
    ${!rows && html`<p class="note">Asking…</p>`}
    ${rows && !rows.length && html`<p>Nothing that the console shows.</p>`}
    ${rows?.length > 0 && html`<table class="rows"><thead><tr><th>Object</th><th>Field</th><th>Before</th><th>After</th><th>By</th></tr></thead><tbody>
      ${rows.slice(0, MOST).flatMap(({ key, fields, who }) => fields.map(({ path, old, current }, index) => html`<tr>
        <td>${index ? "" : key}</td><td><code>${path}</code></td><td>${value(old)}</td><td>${value(current)}</td><td>${index ? "" : who}</td></tr>`))}</tbody></table>`}
    ${rows?.length > MOST && html`<p>${rows.length - MOST} more objects are not shown.</p>`}</div>`;
}

const value = (one) => (one === undefined ? "" : typeof one === "object" ? JSON.stringify(one) : String(one));

/** Object by object the fields that differ between two revisions: of several changes, what was before and what is after. */
async function differences(from, to) {
  const found = new Map();
  const served = Object.entries(informers).filter(([, { paths }]) => paths.length);
  for (const [name, informer] of served) {
    for await (const change of changes(informer.paths[0], from, to, "objects=false")) {
      const key = [name, change.namespace, change.name].filter(Boolean).join(" ");
      if (!found.has(key)) found.set(key, { key, first: change.type, last: change.type, fields: new Map(), who: new Set() });
      const one = found.get(key);
      one.last = change.type;
      one.who.add(change.manager || change.user);
      for (const { path, old, new: current } of change.changes ?? []) {
        one.fields.set(path, { path, old: one.fields.has(path) ? one.fields.get(path).old : old, current });
      }
    }
  }
  return [...found.values()].map(net).filter(({ fields }) => fields.length);
}

function net({ key, first, last, fields, who }) {
  const by = [...who].join(", ");
  if (first === "ADDED" && last === "DELETED") return { key, fields: [], who: by };
  const whole = (old, current) => ({ key, fields: [{ path: "", old, current }], who: by });
  if (last === "DELETED") return whole("there", "deleted");
  if (first === "ADDED") return whole("", "created");
  const same = ({ old, current }) => JSON.stringify(old) === JSON.stringify(current);
  return { key, fields: [...fields.values()].filter((one) => !same(one)), who: by };
}
