// What the server says of itself: whether it refuses all writes, and the cluster's name where that is another server.

import { signal } from "@preact/signals";
import { request } from "./api.js";

export const settings = signal({ read_only: true, cluster: "" });

request("/console/settings.json").then(
  (found) => (settings.value = found),
  () => {},
);
