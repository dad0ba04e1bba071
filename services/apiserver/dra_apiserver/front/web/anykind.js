// A list of any kind, with the columns that kubectl shows; and the list of all kinds.

import { useEffect, useMemo } from "preact/hooks";
import { labelText } from "./cluster.js";
import { ageColumn, counted, nameColumn, namespaceColumn, plural } from "./columns.js";
import { kinds, pageOf, pathOf, unknown, wantKinds } from "./discovery.js";
import { html } from "./html.js";
import { namespace } from "./links.js";
import { List } from "./list.js";
import { useObjects, useTable } from "./visit.js";

/** Columns that are shown in a way of their own. */
const OWN = ["Name", "Age", "Namespace"];

export function AnyKind({ kind }) {
  const path = pathOf(kind, namespace.value);
  // A table has no watch over a WebSocket, which cannot ask for one: a change has the table read again.
  const { rows: names, state } = useObjects([path], ({ metadata }) => `${metadata.uid} ${metadata.resourceVersion}`);
  const [table, error] = useTable(path, names.join());
  const columns = useMemo(() => (table ? columnsOf(kind, table.columnDefinitions) : []), [kind, table]);
  const rows = useMemo(() => (table?.rows ?? []).map(rowOf), [table]);
  return html`<section aria-label=${kind.kind}><h1>${titleOf(kind)}</h1>
    <${List} label=${titleOf(kind)} columns=${columns} rows=${rows} id=${(row) => row.key} hint="any column" empty=${table ? "There is none here." : "loading…"}
      note=${error ? error.message : state === "live" || state === "loading" ? `${rows.length} in all` : state} />
  </section>`;
}

export const titleOf = (kind) => `${plural(kind.kind)}${kind.group && kind.id.includes(".") ? ` (${kind.group})` : ""}`;

const rowOf = ({ cells, object: { metadata } }) => ({
  key: `${metadata.namespace ?? ""}/${metadata.name}`,
  namespace: metadata.namespace,
  name: metadata.name,
  created: metadata.creationTimestamp,
  labels: labelText(metadata),
  cells,
});

function columnsOf(kind, definitions) {
  const place = (row) => `${pageOf(kind)}/${row.namespace ? `${row.namespace}/` : ""}${row.name}`;
  const others = definitions.flatMap(({ name, type, priority }, index) => {
    if (OWN.includes(name) || priority > 0) return [];
    const text = (row) => String(row.cells[index] ?? "");
    const number = type === "integer" || type === "number";
    return [{ id: name.toLowerCase().replaceAll(" ", "-"), title: name, text, ...(number && { kind: "number", value: (row) => Number(row.cells[index]) }) }];
  });
  const own = kind.namespaced ? [namespaceColumn] : [];
  return [...own, nameColumn("Name", place), ...others, ageColumn];
}

const KIND_COLUMNS = [
  nameColumn("Kind", (kind) => pageOf(kind), (kind) => kind.kind),
  { id: "plural", title: "Resource", text: (kind) => kind.plural },
  { id: "short", title: "Short", text: (kind) => kind.short.join(", ") },
  { id: "group", title: "Group", text: (kind) => kind.group || "core" },
  { id: "version", title: "Version", text: (kind) => kind.version },
  { id: "namespaced", title: "Namespaced", wide: true, text: (kind) => (kind.namespaced ? "yes" : "no") },
];

/** All kinds that the server has, also those of custom resources. */
export function Kinds() {
  useEffect(() => void wantKinds(), []);
  const found = kinds.value ?? [];
  return html`<section aria-label="All kinds"><h1>All kinds</h1>
    <${List} label="All kinds" columns=${KIND_COLUMNS} rows=${found} id=${(kind) => `${kind.group}/${kind.plural}`} hint="kind, group, short name" empty=${unknown.value || "loading…"} note=${counted(found.length, "kind")} />
  </section>`;
}
