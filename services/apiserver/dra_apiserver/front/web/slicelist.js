// The slices page: the devices that drivers publish, as they are published.

import { slices } from "./cluster.js";
import { ageColumn, counted, nameColumn } from "./columns.js";
import { html } from "./html.js";
import { Link } from "./links.js";
import { List } from "./list.js";

const reach = (slice) => slice.nodeName ?? (slice.allNodes ? "all nodes" : slice.perDeviceNodeSelection ? "by device" : slice.nodeSelector ? "by label" : "");

const COLUMNS = [
  nameColumn("Slice", (slice) => `slices/${slice.name}`),
  { id: "driver", title: "Driver", text: (slice) => slice.driver },
  { id: "pool", title: "Pool", text: (slice) => slice.pool.name },
  { id: "node", title: "Node", text: reach, cell: (slice) => (slice.nodeName ? html`<${Link} to=${`nodes/${slice.nodeName}`}>${slice.nodeName}<//>` : reach(slice)) },
  { id: "devices", title: "Devices", kind: "number", text: (slice) => String(slice.devices.length), value: (slice) => slice.devices.length },
  { id: "generation", title: "Generation", kind: "number", wide: true, text: (slice) => String(slice.pool.generation ?? 0), value: (slice) => slice.pool.generation ?? 0 },
  ageColumn,
];

export function Slices() {
  return html`<section aria-label="Resource slices"><h1>Resource slices</h1>
    <${List} label="Resource slices" columns=${COLUMNS} rows=${slices.value} id=${(slice) => slice.name} hint="name, driver, pool, node" empty="No driver has published devices." note=${counted(slices.value.length, "slice")} />
  </section>`;
}
