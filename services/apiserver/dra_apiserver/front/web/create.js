// New objects from YAML: first tried by the server, and placed by the scheduler's plan; created only after that.

import { useEffect, useState } from "preact/hooks";
import { request } from "./api.js";
import { kinds, pageOf, pathOf, wantKinds } from "./discovery.js";
import { html } from "./html.js";
import { Link, namespace } from "./links.js";
import { readOnly } from "./moments.js";
import { Placement } from "./scaling.js";

const WRITES = "fieldManager=dralab-console&fieldValidation=Strict";
const WITH_PODS = new Set(["Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob"]);
const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: my-pod
spec:
  containers:
  - name: main
    image: busybox
    command: [sleep, "3600"]
`;

/** The documents of a text with the kind and namespace of each. Raises an Error if one has none. */
export function documents(text) {
  const found = text.split(/^---.*$/m).filter((part) => part.replace(/^\s*#.*$/gm, "").trim());
  return found.map((part) => {
    const top = (name) => part.match(new RegExp(`^["']?${name}["']?:\\s*["']?([^\\s"'#]+)`, "m"))?.[1];
    const [apiVersion, kind] = [top("apiVersion"), top("kind")];
    if (!apiVersion || !kind) throw new Error("each document begins its lines with apiVersion: and kind:");
    const metadata = part.match(/^metadata:[ \t]*\n((?:[ \t]+.*\n?|[ \t]*\n)*)/m)?.[1] ?? part;
    const own = metadata.match(/^\s*namespace:\s*["']?([^\s"'#]+)/m)?.[1];
    return { text: part, apiVersion, kind, namespace: own };
  });
}

function pathFor({ apiVersion, kind, namespace: own }) {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  const found = kinds.value?.find((one) => one.kind === kind && one.group === group);
  if (!found) throw new Error(`the server has no kind ${kind} of ${apiVersion}`);
  const version = { ...found, path: group ? `/apis/${apiVersion}` : `/api/${apiVersion}` };
  return { kind: found, path: pathOf(version, own ?? (namespace.value || "default")) };
}

/** Send each document to its collection, in order: `[{kind, object}]`, or `problem` in place of the object. */
async function send(text, query) {
  await wantKinds();
  const results = [];
  for (const one of documents(text)) {
    try {
      const { kind, path } = pathFor(one);
      results.push({ kind, object: await request(`${path}?${WRITES}${query}`, { method: "POST", text: one.text, type: "application/yaml" }) });
    } catch (error) {
      const waits = query && error.status === 404 && results.some(({ object }) => object?.kind === "Namespace" && object.metadata.name === one.namespace);
      results.push(waits ? { later: `${one.kind}: can be tried once namespace ${one.namespace} is there.` } : { problem: `${one.kind}: ${error.message}` });
      // A document may need those before it, which a trial does not create.
      if (!query) break;
    }
  }
  return results;
}

export function Create() {
  useEffect(() => void wantKinds(), []);
  const [text, setText] = useState(EXAMPLE);
  const [tried, setTried] = useState(undefined);
  const [created, setCreated] = useState(undefined);
  const failed = (error) => setTried({ results: [{ problem: error.message }] });
  const attempt = async () => {
    setCreated(undefined);
    try {
      const results = await send(text, "&dryRun=All");
      setTried({ results });
      const objects = results.flatMap(({ object }) => object ?? []);
      if (!objects.some(({ kind }) => WITH_PODS.has(kind))) return;
      const answer = await request("/insight/plan/fit", { method: "POST", body: { objects, more: true } }).catch((error) => ({ failure: error.message }));
      setTried({ results, answer });
    } catch (error) {
      failed(error);
    }
  };
  const write = async () => {
    setTried(undefined);
    await send(text, "").then(setCreated, failed);
  };
  return html`<section aria-label="Create"><h1>Create</h1>
    ${readOnly.value ? html`<p class="empty">Nothing can be created: the console is read only, or shows the past.</p>` : html`<div class="yamleditor"><label for="manifest">Objects as YAML, with --- between them; without a namespace they are for ${namespace.value || "default"}</label>
      <textarea id="manifest" spellcheck="false" autocomplete="off" rows="20" value=${text} onInput=${(event) => { setText(event.target.value); setTried(undefined); setCreated(undefined); }}></textarea>
      <p class="controls"><button onClick=${attempt}>Try it</button><span class="note">The server tries it first and writes nothing.</span></p></div>`}
    ${tried && html`<div class="preview">${tried.results.map(({ object, problem, later }) => later ? html`<p class="note">${later}</p>` : (problem ? html`<p class="bad" role="alert">${problem}</p>` : html`<p>${object.kind} ${object.metadata.name} would be created.</p>`))}
      ${tried.answer && (tried.answer.failure ? html`<p class="note">No plan: ${tried.answer.failure}</p>` : html`<${Placement} answer=${tried.answer} />`)}
      ${tried.results.some(({ object }) => object) && html`<p><button class="do" onClick=${write}>Create now</button></p>`}</div>`}
    ${created && html`<div role="status">${created.map(({ kind, object, problem }) => (problem ? html`<p class="bad">${problem}</p>` : html`<p>Created: <${Link} to=${`${pageOf(kind)}/${object.metadata.namespace ? `${object.metadata.namespace}/` : ""}${object.metadata.name}`}>${object.kind} ${object.metadata.name}<//></p>`))}</div>`}
  </section>`;
}
