// Columns that several lists have.

import { Age } from "./age.js";
import { html } from "./html.js";
import { Link, namespace } from "./links.js";

/** The name, which leads to the object's page. j and k move along these links. */
export const nameColumn = (title, place, text = (row) => row.name) => ({
  id: "name",
  title,
  text,
  cell: (row) => html`<${Link} to=${place(row)} class="name">${text(row)}<//>`,
});

export const namespaceColumn = {
  id: "namespace",
  title: "Namespace",
  text: (row) => row.namespace,
  cell: (row) => html`<button class="link" title=${`Only namespace ${row.namespace}`} onClick=${() => (namespace.value = row.namespace)}>${row.namespace}</button>`,
};

/** How old an object is. The youngest come first. */
export const ageColumn = { id: "age", title: "Age", kind: "number", cell: (row) => html`<${Age} of=${row.created} />`, value: (row) => -Date.parse(row.created) };

/** The rows of the namespace that is chosen. */
export const within = (rows) => (namespace.value ? rows.filter((row) => row.namespace === namespace.value) : rows);

/** `2 pods`, `1 pod`. */
export const counted = (number, noun, many = `${noun}s`) => `${number} ${number === 1 ? noun : many}`;

/** `Pods`, `NetworkPolicies`, `Ingresses`: the plural of a kind. */
export const plural = (kind) => (/[sxh]$/.test(kind) ? `${kind}es` : /[^aeiou]y$/.test(kind) ? `${kind.slice(0, -1)}ies` : `${kind}s`);
