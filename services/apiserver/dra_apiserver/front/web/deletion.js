// The deletion of an object: first tried by the server, with what would go with it, and done only then.

import { useState } from "preact/hooks";
import { request } from "./api.js";
import { claims, pods } from "./cluster.js";
import { counted } from "./columns.js";
import { html } from "./html.js";

export function Deletion({ object, path, done }) {
  const [tried, setTried] = useState(false);
  const [problem, setProblem] = useState("");
  const { namespace, name } = object.metadata;
  const attempt = (query, then) => request(`${path}${query}`, { method: "DELETE" }).then(then, (error) => setProblem(error.message));
  const preview = () => {
    setProblem("");
    attempt("?dryRun=All", () => setTried(true));
  };
  const inside = (all) => all.value.filter((one) => (object.kind === "Namespace" ? one.namespace === name : one.namespace === namespace && one.owner === `${object.kind}/${name}`)).length;
  const others = [counted(inside(pods), "pod"), counted(inside(claims), "claim")].filter((text) => !text.startsWith("0 "));
  return html`<section class="whatif" aria-label="Delete"><p class="controls"><button onClick=${preview}>Delete ${object.kind} ${name}…</button></p>
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    ${tried && html`<div class="preview"><p>The server would delete it${others.length ? html`, and with it <b>${others.join(" and ")}</b>` : ""}.
      ${object.metadata.finalizers?.length ? ` It stays until ${object.metadata.finalizers.join(", ")} is removed.` : ""}</p>
      <p class="controls"><button class="do" onClick=${() => attempt("", done)}>Delete it now</button><button onClick=${() => setTried(false)}>Keep it</button></p></div>`}
  </section>`;
}
