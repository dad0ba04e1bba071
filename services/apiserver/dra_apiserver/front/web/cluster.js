// What the console knows of the cluster: an informer for each resource that the views are made of.

import { computed } from "@preact/signals";
import { Informer, key, pace } from "./informer.js";
import { fleet } from "./fleet.js";

// The newest that the server has: Kubernetes 1.32 has the last alone.
const VERSIONS = ["v1", "v1beta2", "v1beta1"];
const dra = (plural, ...versions) => versions.map((version) => `/apis/resource.k8s.io/${version}/${plural}`);

// An attribute with more values than these has one for each device, such as its UUID: to share them brings nothing.
const MOST_VALUES = 200;
const MOST_TEXTS = 10_000;

// Only what views read is kept: 5,000 nodes and 40,000 devices have to fit.
const node = ({ metadata, spec, status }) => ({
  name: metadata.name,
  created: metadata.creationTimestamp,
  version: status?.nodeInfo?.kubeletVersion ?? "",
  labels: metadata.labels ?? {},
  ready: status?.conditions?.find((one) => one.type === "Ready")?.status === "True",
  cordoned: spec?.unschedulable === true,
  taints: (spec?.taints ?? []).map((taint) => `${taint.key}:${taint.effect}`),
});

// The pods of a workload have one owner and mostly the same labels: each text is kept once.
const texts = new Map();
function once(text) {
  if (!texts.has(text)) {
    if (texts.size > MOST_TEXTS) texts.clear();
    texts.set(text, text);
  }
  return texts.get(text);
}

/** The controller of an object, as `Kind/name`; empty without one. */
export function ownerOf({ ownerReferences }) {
  const owner = ownerReferences?.find((one) => one.controller);
  return owner ? once(`${owner.kind}/${owner.name}`) : "";
}

/** The labels of an object as a text that filters look at. */
export const labelText = ({ labels }) => once(Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`).join(" "));

const claim = ({ metadata, spec, status }) => ({
  key: key({ metadata }),
  namespace: metadata.namespace,
  name: metadata.name,
  created: metadata.creationTimestamp,
  deleted: metadata.deletionTimestamp,
  owner: ownerOf(metadata),
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
    owner: ownerOf(metadata),
    labels: labelText(metadata),
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

// Of 40,000 devices most values are the same few: each is kept once, by type and attribute.
const values = new Map();
function kept(name, one) {
  const [type, ...more] = Object.keys(one);
  const value = one[type];
  // A capacity with a policy, or a list of values.
  if (more.length || typeof value === "object") return one;
  const known = within(within(values, type), name);
  if (!known.has(value)) {
    // A UUID is never met again.
    if (known.size >= MOST_VALUES) return one;
    known.set(value, one);
  }
  return known.get(value);
}
function within(maps, name) {
  let found = maps.get(name);
  if (!found) maps.set(name, (found = new Map()));
  return found;
}
function share(all) {
  for (const name in all) all[name] = kept(name, all[name]);
}

/** A device as v1 has it: v1beta1 has what it is in `basic`. All else that is read of both is in the same place. */
export const flat = (device) => (device.basic ? { name: device.name, ...device.basic } : device);

const slice = ({ metadata, spec }) => {
  const devices = (spec.devices ?? []).map(flat);
  for (const { attributes, capacity } of devices) {
    if (attributes) share(attributes);
    if (capacity) share(capacity);
  }
  return { name: metadata.name, created: metadata.creationTimestamp, ...spec, devices };
};
const rule = ({ metadata, spec }) => ({ name: metadata.name, ...spec });
const deviceClass = ({ metadata, spec }) => ({
  name: metadata.name,
  created: metadata.creationTimestamp,
  selectors: spec.selectors ?? [],
  extended: spec.extendedResourceName ?? "",
});
const named = ({ metadata }) => ({ name: metadata.name });

export const informers = {
  nodes: new Informer(["/api/v1/nodes"], node),
  slices: new Informer(dra("resourceslices", ...VERSIONS), slice),
  claims: new Informer(dra("resourceclaims", ...VERSIONS), claim),
  pods: new Informer(["/api/v1/pods"], pod),
  classes: new Informer(dra("deviceclasses", ...VERSIONS), deviceClass),
  rules: new Informer(dra("devicetaintrules", "v1beta2", "v1alpha3", "v1"), rule),
  namespaces: new Informer(["/api/v1/namespaces"], named),
};

/** Informers of the page that is open; each runs until the page is left. */
export const visited = new Set();

/** All informers. */
export const running = () => [...Object.values(informers), ...visited];

/** Starts all of them; they run until the signal aborts. */
export function start(aborted) {
  for (const informer of running()) informer.run(aborted);
}

const objects = (name) => {
  // Read for its effect: who reads this is drawn again when an object changes.
  informers[name].version.value;
  return informers[name].objects;
};

export const nodes = computed(() => [...objects("nodes").values()]);
export const pods = computed(() => [...objects("pods").values()]);
export const claims = computed(() => [...objects("claims").values()]);
export const classes = computed(() => [...objects("classes").values()]);
export const slices = computed(() => [...objects("slices").values()]);
export const namespaces = computed(() => [...objects("namespaces").keys()].sort());
export const world = computed(() => {
  const begun = performance.now();
  const made = fleet({
    nodes: objects("nodes"),
    slices: objects("slices"),
    claims: objects("claims"),
    pods: objects("pods"),
    rules: objects("rules"),
  });
  pace.made = performance.now();
  pace.cost = pace.made - begun;
  return made;
});
/** The devices by `driver/pool/name`. */
export const devices = computed(
  () => new Map(world.value.nodes.flatMap(({ boards }) => boards.flatMap((board) => board.devices.map((one) => [one.key, one])))),
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

/** The path of a claim. */
export const claimPath = ({ namespace, name }) => inNamespace(informers.claims.paths[0], namespace, name);

/** The path of a pod. */
export const podPath = ({ namespace, name }) => inNamespace(informers.pods.paths[0], namespace, name);

const inNamespace = (path, namespace, name) => path.replace(/\/([a-z]+)$/, `/namespaces/${namespace}/$1/${name}`);
