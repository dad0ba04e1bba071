// A container's log, followed while it is open.

import { useEffect, useRef, useState } from "preact/hooks";
import { lines } from "./api.js";
import { html } from "./html.js";

const MOST = 2000;

export function Logs({ pod, container }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>Log</summary>
    ${open && html`<${Following} pod=${pod} container=${container} />`}</details>`;
}

function Following({ pod, container }) {
  const [shown, set] = useState([]);
  const end = useRef(null);
  useEffect(() => {
    const controller = new AbortController();
    const [namespace, name] = pod.split("/");
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/log?container=${container}&follow=true&tailLines=${MOST}`;
    follow(path, controller.signal, set).catch((error) => controller.signal.aborted || set((all) => [...all, error.message]));
    return () => controller.abort();
  }, [pod, container]);
  useEffect(() => (end.current.scrollTop = end.current.scrollHeight), [shown]);
  return html`<pre class="log" ref=${end} tabindex="0" aria-label=${`Log of ${container}`}>${shown.join("\n")}</pre>`;
}

async function follow(path, signal, set) {
  for await (const line of lines(path, signal)) set((all) => [...all.slice(1 - MOST), line]);
}
