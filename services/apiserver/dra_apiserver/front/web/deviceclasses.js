// The device classes page: each class with the devices that it selects.

import { useEffect } from "preact/hooks";
import { selections, unknown, wantSelections } from "./classes.js";
import { classes } from "./cluster.js";
import { ageColumn, counted, nameColumn } from "./columns.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { List } from "./list.js";

const selectors = (one) => one.selectors.map(({ cel }) => cel?.expression ?? "").join(" && ");
const selected = ({ name }) => (selections.value ? [...selections.value.values()].filter((names) => names.includes(name)).length : undefined);

const COLUMNS = [
  nameColumn("Class", (one) => `classes/${one.name}`),
  { id: "devices", title: "Devices", kind: "number", text: (one) => String(selected(one) ?? "…"), value: selected, cell: (one) => html`<${Link} to="fleet" more=${{ class: one.name }}>${selected(one) ?? "…"}<//>` },
  { id: "selectors", title: "Selectors", text: selectors, cell: (one) => html`<code>${selectors(one)}</code>` },
  { id: "extended", title: "Extended resource", wide: true, text: (one) => one.extended },
  ageColumn,
];

export function DeviceClasses() {
  useEffect(wantSelections, []);
  // Read for its effect: columns show it.
  selections.value;
  return html`<section aria-label="Device classes"><h1>Device classes</h1>
    ${unknown.value && html`<p class="bad">${unknown.value}</p>`}
    <${List} label="Device classes" columns=${COLUMNS} rows=${[...classes.value]} id=${(one) => one.name} hint="name, selector" empty="There is no device class. Drivers bring theirs." note=${counted(classes.value.length, "class", "classes")} />
  </section>`;
}
