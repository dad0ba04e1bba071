// What the console knows of the cluster: an informer for each resource that the views are made of.

import { computed } from "@preact/signals";
import { Informer, key } from "./informer.js";
import { fleet } from "./fleet.js";

const dra = (plural, ...versions) => versions.map((version) => `/apis/resource.k8s.io/${version}/${plural}`);

// Only what views read is kept: 5,000 nodes and 40,000 devices have to fit.
const node = ({ metadata, spec, status }) => ({
  name: metadata.name,
  labels: metadata.labels ?? {},
  ready: status?.conditions?.find((one) => one.type === "Ready")?.status === "True",
  cordoned: spec?.unschedulable === true,
  taints: (spec?.taints ?? []).map((taint) => `${taint.key}:${taint.effect}`),
});

const claim = ({ metadata, spec, status }) => ({
  key: key({ metadata }),
  namespace: metadata.namespace,
  name: metadata.name,
  created: metadata.creationTimestamp,
  deleted: metadata.deletionTimestamp,
  requests: (spec.devices?.requests ?? []).map((one) => one.name),
  results: status?.allocation?.devices?.results ?? [],
  allocated: status?.allocation !== undefined,
  allocatedAt: status?.allocation?.allocationTimestamp,
  pods: (status?.reservedFor ?? []).filter((one) => one.resource === "pods").map((one) => one.name),
});

const pod = ({ metadata, spec, status }) => {
  const conditions = Object.fromEntries((status?.conditions ?? []).map((one) => [one.type, one]));
  return {
    key: key({ metadata }),
    namespace: metadata.namespace,
    name: metadata.name,
    created: metadata.creationTimestamp,
    deleted: metadata.deletionTimestamp,
    node: spec.nodeName ?? "",
    phase: status?.phase ?? "Pending",
    conditions,
    containers: [...(spec.initContainers ?? []), ...spec.containers, ...(spec.ephemeralContainers ?? [])].map((one) => one.name),
    claims: (status?.resourceClaimStatuses ?? [])
      .map((one) => one.resourceClaimName)
      .concat((spec.resourceClaims ?? []).map((one) => one.resourceClaimName))
      .filter(Boolean),
    statuses: status?.containerStatuses ?? [],
    otherStatuses: [...(status?.initContainerStatuses ?? []), ...(status?.ephemeralContainerStatuses ?? [])],
    // A DaemonSet's pod would come back, a static one is the node's own, one that has ended holds nothing.
    evictable:
      !metadata.ownerReferences?.some((one) => one.kind === "DaemonSet" || one.kind === "Node") &&
      !["Succeeded", "Failed"].includes(status?.phase),
  };
};

const slice = ({ metadata, spec }) => ({ name: metadata.name, ...spec });
const rule = ({ metadata, spec }) => ({ name: metadata.name, ...spec });
const deviceClass = ({ metadata, spec }) => ({ name: metadata.name, selectors: spec.selectors ?? [] });

export const informers = {
  nodes: new Informer(["/api/v1/nodes"], node),
  slices: new Informer(dra("resourceslices", "v1"), slice),
  claims: new Informer(dra("resourceclaims", "v1"), claim),
  pods: new Informer(["/api/v1/pods"], pod),
  classes: new Informer(dra("deviceclasses", "v1"), deviceClass),
  rules: new Informer(dra("devicetaintrules", "v1beta2", "v1alpha3", "v1"), rule),
};

/** Starts all of them. */
export function start(aborted = new AbortController().signal) {
  for (const informer of Object.values(informers)) informer.run(aborted);
}

const objects = (name) => {
  // Read for its effect: who reads this is drawn again when an object changes.
  informers[name].version.value;
  return informers[name].objects;
};

export const pods = computed(() => [...objects("pods").values()]);
export const claims = computed(() => [...objects("claims").values()]);
export const classes = computed(() => [...objects("classes").values()]);
export const slices = computed(() => [...objects("slices").values()]);
export const world = computed(() =>
  fleet({
    nodes: objects("nodes"),
    slices: objects("slices"),
    claims: objects("claims"),
    pods: objects("pods"),
    rules: objects("rules"),
  }),
);
/** What keeps the console from showing everything; empty while all is well. */
export const trouble = computed(() =>
  Object.entries(informers)
    .map(([name, informer]) => [name, informer.state.value])
    .filter(([, state]) => state !== "live" && state !== "loading")
    .map(([name, state]) => `${name}: ${state}`),
);
export const loading = computed(() =>
  Object.values(informers).some((informer) => informer.state.value === "loading"),
);
