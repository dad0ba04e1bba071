// The quotas page: of each ResourceQuota what is used, and what is left.

import { counted, nameColumn, namespaceColumn, within } from "./columns.js";
import { html } from "./html.js";
import { List } from "./list.js";
import { quantity } from "./quantity.js";
import { useObjects } from "./visit.js";

/** One row for each resource of a quota. */
const keep = ({ metadata, spec, status }) =>
  Object.entries(spec.hard ?? {}).map(([resource, hard]) => {
    const used = status?.used?.[resource] ?? "0";
    return { key: `${metadata.namespace}/${metadata.name}/${resource}`, namespace: metadata.namespace, name: metadata.name, resource, hard, used, share: quantity(used) / (quantity(hard) || 1) };
  });

const COLUMNS = [
  namespaceColumn,
  nameColumn("Quota", (row) => `quotas/${row.namespace}/${row.name}`),
  { id: "resource", title: "Resource", text: (row) => row.resource },
  { id: "used", title: "Used", text: (row) => `${row.used} of ${row.hard}`, value: (row) => row.share,
    cell: (row) => html`<meter min="0" max="1" high="0.9" value=${row.share} aria-label=${`${row.resource} used`} /> ${row.used} of ${row.hard}` },
];

export function Quotas() {
  const { rows, state } = useObjects(["/api/v1/resourcequotas"], keep);
  const found = within(rows.flat());
  return html`<section aria-label="Quotas"><h1>Quotas</h1>
    <${List} label="Quotas" columns=${COLUMNS} rows=${found} id=${(row) => row.key} hint="namespace, name, resource" empty=${state === "loading" ? "loading…" : "There is no quota here."}
      note=${state === "live" || state === "loading" ? counted(found.length, "limit") : state} />
  </section>`;
}
