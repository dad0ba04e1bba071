// The log of a container: followed as it grows, or that of the attempt before.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { pieces } from "./api.js";
import { Copy } from "./copy.js";
import { html } from "./html.js";
import { param } from "./links.js";
import { matcher } from "./order.js";

const MOST = 2000;
// So near its end a log counts as read to the end, in pixels.
const NEAR = 30;
// A log that ends is asked for again after so long: its container may be started again.
const AGAIN = 2000;
// Pieces are gathered so long before they are drawn.
const TOGETHER = 50;

const chosen = param("container");

/** A log behind a fold, in the list of a pod's containers. */
export function Logs({ pod, container, restarts }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>Log</summary>
    ${open && html`<${Log} pod=${pod} container=${container} restarts=${restarts} />`}</details>`;
}

/** The logs of a pod on a page of their own, with a choice of the container. */
export function PodLogs({ pod }) {
  const container = pod.containers.includes(chosen.value) ? chosen.value : (pod.containers.find((name) => pod.statuses.some((one) => one.name === name)) ?? pod.containers[0]);
  const restarts = [...pod.statuses, ...pod.otherStatuses].find((one) => one.name === container)?.restartCount ?? 0;
  return html`<div class="logs">${pod.containers.length > 1 && html`<label>Container <select value=${container} onChange=${(event) => (chosen.value = event.target.value)}>${pod.containers.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`}
    <${Log} key=${container} pod=${pod.key} container=${container} restarts=${restarts} /></div>`;
}

function Log({ pod, container, restarts }) {
  const [previous, setPrevious] = useState(false);
  const [stamped, setStamped] = useState(false);
  return html`<${Following} key=${`${previous} ${stamped}`} pod=${pod} container=${container} previous=${previous} stamped=${stamped}>
    ${restarts > 0 && html`<label><input type="checkbox" checked=${previous} onChange=${(event) => setPrevious(event.target.checked)} /> of the attempt before</label>`}
    <label><input type="checkbox" checked=${stamped} onChange=${(event) => setStamped(event.target.checked)} /> times</label><//>`;
}

function Following({ pod, container, previous, stamped, children }) {
  const [text, set] = useState("");
  const [state, setState] = useState("");
  const [wanted, setWanted] = useState("");
  const [wraps, setWraps] = useState(false);
  const [follows, setFollows] = useState(true);
  const box = useRef(null);
  useEffect(() => {
    const controller = new AbortController();
    const gathered = gather((piece) => set((before) => last(before + piece)));
    const [namespace, name] = pod.split("/");
    const query = new URLSearchParams({ container, timestamps: stamped, ...(previous ? { previous } : { follow: true }) });
    follow(`/api/v1/namespaces/${namespace}/pods/${name}/log?${query}`, controller.signal, gathered, setState, !previous);
    return () => controller.abort();
  }, []);
  const shown = useMemo(() => (wanted.trim() ? text.split("\n").filter(matcher(wanted)).join("\n") : text), [text, wanted]);
  useEffect(() => {
    // Who reads further up is left there.
    if (follows) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, follows]);
  const scrolled = ({ target }) => setFollows(target.scrollHeight - target.scrollTop - target.clientHeight < NEAR);
  return html`<p class="controls"><label>Lines with <input type="search" value=${wanted} placeholder="word !word" onInput=${(event) => setWanted(event.target.value)} /></label>
      ${children}<label><input type="checkbox" checked=${wraps} onChange=${(event) => setWraps(event.target.checked)} /> wrap</label>
      <button aria-pressed=${follows} onClick=${() => setFollows(!follows)}>${follows ? "Following" : "Follow"}</button>
      <${Copy} text=${shown} what="the log" /><span class="note" role="status">${state}</span></p>
    <pre class=${`log${wraps ? " wraps" : ""}`} ref=${box} tabindex="0" onScroll=${scrolled} aria-label=${`Log of ${container}`}>${shown}</pre>`;
}

/** The last lines of a text. */
function last(text) {
  let start = text.length - 1;
  for (let count = 0; count < MOST && start >= 0; count += 1) start = text.lastIndexOf("\n", start - 1);
  return start < 0 ? text : text.slice(start + 1);
}

/** A function that collects pieces and passes them on together. */
function gather(add) {
  let waiting = "";
  return (piece) => {
    if (!waiting) setTimeout(() => (add(waiting), (waiting = "")), TOGETHER);
    waiting += piece;
  };
}

/** Read a log, and go on after its end: with what came since, when the container is started again. */
async function follow(path, signal, add, report, again) {
  let from = `&tailLines=${MOST}`;
  for (;;) {
    try {
      report("");
      for await (const piece of pieces(path + from, signal)) add(piece);
      report("ended");
      from = `&sinceTime=${encodeURIComponent(new Date().toISOString())}`;
    } catch (error) {
      if (signal.aborted) return;
      report(error.message);
      // A container that is not there yet has no log; its first lines are wanted then.
      if (from.startsWith("&tail")) from = "";
    }
    if (!again) return;
    await new Promise((done) => setTimeout(done, AGAIN));
    if (signal.aborted) return;
  }
}
