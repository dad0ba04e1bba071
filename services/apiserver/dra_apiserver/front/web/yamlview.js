// An object as YAML, and its editor: what is written is first tried by the server, and shown as a difference.
//
// The server itself writes and reads the YAML, so no field is lost on the way.

import { useEffect, useRef, useState } from "preact/hooks";
import { requestYaml } from "./api.js";
import { Copy } from "./copy.js";
import { hunks, lineDiff } from "./diff.js";
import { html } from "./html.js";
import { param } from "./links.js";
import { past, readOnly } from "./moments.js";

const editing = param("edit");
const WRITES = "fieldManager=dralab-console&fieldValidation=Strict";

/** A text of YAML without the managed fields, which no person reads. An update without them keeps them. */
export function withoutManagedFields(text) {
  let inMetadata = false;
  let skipped = false;
  return text
    .split("\n")
    .filter((line) => {
      if (/^\S/.test(line)) inMetadata = line.startsWith("metadata:");
      if (!inMetadata) return true;
      if (line === "  managedFields:") skipped = true;
      else if (/^ {2}[^\s-]/.test(line) || /^\S/.test(line)) skipped = false;
      return !skipped;
    })
    .join("\n");
}

/** `version` changes when the object does. */
export function Yaml({ path, version }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const before = past.value ? `/at/${past.value.revision}` : "";
  useEffect(() => {
    const controller = new AbortController();
    requestYaml(before + path, { signal: controller.signal }).then(
      (found) => {
        setText(withoutManagedFields(found));
        setProblem("");
      },
      (error) => controller.signal.aborted || setProblem(error.message),
    );
    return () => controller.abort();
  }, [path, before, version]);
  if (problem) return html`<p class="bad">${problem}</p>`;
  if (!text) return html`<p class="note">loading…</p>`;
  if (editing.value && !readOnly.value) return html`<${Editor} key=${path} path=${path} current=${text} />`;
  return html`<p class="controls"><${Copy} text=${text} what="the YAML" />
      ${!readOnly.value && html`<button onClick=${() => (editing.value = "yes")}>Edit <kbd>e</kbd></button>`}<span class="note">without managedFields</span></p>
    <pre class="yaml" tabindex="0" aria-label="YAML">${text.split("\n").map((line) => html`<${Line} line=${line} />`)}</pre>`;
}

/** A line with its key apart from its value. */
function Line({ line }) {
  const found = line.match(/^([\s-]*)([^\s:'"][^:]*|'[^']*'|"[^"]*")(:(?: |$))(.*)$/);
  return found ? html`${found[1]}<b>${found[2]}</b>${`${found[3]}${found[4]}\n`}` : `${line}\n`;
}

function Editor({ path, current }) {
  // The object may change meanwhile; what is edited stays, and the server refuses a version that is too old.
  const [base] = useState(current);
  const [text, setText] = useState(current);
  const [tried, setTried] = useState(undefined);
  const [problem, setProblem] = useState("");
  const stale = current !== base;
  const put = async (query) => withoutManagedFields(await requestYaml(`${path}?${WRITES}${query}`, { method: "PUT", text }));
  const attempt = (query, then) => put(query).then((found) => (setProblem(""), then(found)), (error) => (setTried(undefined), setProblem(error.message)));
  const leave = () => (editing.value = "");
  return html`<div class="yamleditor"><label for="yaml" class="hidden">YAML</label>
    <textarea id="yaml" spellcheck="false" autocomplete="off" rows=${Math.min(40, Math.max(12, text.split("\n").length))} value=${text}
      onInput=${(event) => { setText(event.target.value); setTried(undefined); }}></textarea>
    <p class="controls"><button onClick=${() => attempt("&dryRun=All", setTried)} disabled=${text === base}>Try it</button>
      <button onClick=${leave}>Discard</button>
      ${stale && html`<span class="bad">The object has changed since. Discard, and edit again, if the server refuses.</span>`}
      ${!tried && !problem && html`<span class="note">The server tries the change first and writes nothing.</span>`}</p>
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    ${tried !== undefined && html`<${Difference} before=${base} after=${tried} write=${() => attempt("", leave)} />`}</div>`;
}

/** `after` has also what the server itself would add or change. */
function Difference({ before, after, write }) {
  const lines = hunks(lineDiff(before, after));
  const section = useRef(null);
  useEffect(() => section.current?.scrollIntoView({ block: "nearest" }), [after]);
  const signs = { same: " ", old: "-", new: "+" };
  if (!lines.some((line) => line && line.kind !== "same")) return html`<p role="status">The server would change nothing.</p>`;
  return html`<section aria-label="Difference" ref=${section}><h2>This would change</h2>
    <pre class="diff" tabindex="0">${lines.map((line) => (line ? html`<span class=${line.kind}>${`${signs[line.kind]} ${line.line}\n`}</span>` : html`<span class="gap">…</span>`))}</pre>
    <button class="do" onClick=${write}>Write it</button></section>`;
}
