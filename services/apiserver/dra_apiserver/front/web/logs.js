// A container's log, followed while it is open; or that of its attempt before.

import { useEffect, useRef, useState } from "preact/hooks";
import { pieces } from "./api.js";
import { html } from "./html.js";

const MOST = 2000;
// So near its end a log counts as read to the end, in pixels.
const NEAR = 30;

export function Logs({ pod, container, restarts }) {
  const [open, setOpen] = useState(false);
  const [previous, setPrevious] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>Log</summary>
    ${open && restarts > 0 && html`<label><input type="checkbox" checked=${previous} onChange=${(event) => setPrevious(event.target.checked)} /> of the attempt before</label>`}
    ${open && html`<${Following} key=${previous} pod=${pod} container=${container} previous=${previous} />`}</details>`;
}

function Following({ pod, container, previous }) {
  const [text, set] = useState("");
  const box = useRef(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const controller = new AbortController();
    const add = (piece) => set((before) => last(before + piece));
    const [namespace, name] = pod.split("/");
    const query = new URLSearchParams({ container, tailLines: MOST, ...(previous ? { previous } : { follow: true }) });
    follow(`/api/v1/namespaces/${namespace}/pods/${name}/log?${query}`, controller.signal, add).catch(
      (error) => controller.signal.aborted || add(`${error.message}\n`),
    );
    return () => controller.abort();
  }, []);
  useEffect(() => {
    // Who reads further up is left there.
    if (atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const scrolled = ({ target }) => (atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR);
  return html`<pre class="log" ref=${box} tabindex="0" onScroll=${scrolled} aria-label=${`Log of ${container}`}>${text}</pre>`;
}

/** The last lines of a text. */
function last(text) {
  let start = text.length - 1;
  for (let count = 0; count < MOST && start >= 0; count += 1) start = text.lastIndexOf("\n", start - 1);
  return start < 0 ? text : text.slice(start + 1);
}

async function follow(path, signal, add) {
  for await (const piece of pieces(path, signal)) add(piece);
}
