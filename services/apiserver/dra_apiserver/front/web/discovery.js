// The kinds that the server has, from its aggregated discovery: one request for the core group, one for all others.

import { signal } from "@preact/signals";
import { request } from "./api.js";

const ACCEPT = ["v2", "v2beta1"].map((version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`).join(",");

/** `[{id, group, version, plural, kind, namespaced, verbs, short, path}]`; undefined until the server has answered. */
export const kinds = signal(undefined);
/** The reason why there are none. */
export const unknown = signal("");
let asked;

/** Ask the server, once. */
export function wantKinds() {
  asked ??= Promise.all(["/api", "/apis"].map((path) => request(path, { accept: ACCEPT }))).then(
    (answers) => (kinds.value = answers.flatMap(({ items }) => items.flatMap(served))),
    (error) => {
      unknown.value = error.message;
      asked = undefined;
    },
  );
  return asked;
}

/** The kinds of a group in its preferred version, and those that only another version has. */
function served({ metadata, versions }) {
  const found = new Map();
  for (const { version, resources } of versions) {
    for (const one of resources ?? []) if (!found.has(one.resource)) found.set(one.resource, made(metadata.name ?? "", version, one));
  }
  return [...found.values()].filter(({ verbs }) => verbs.includes("list"));
}

function made(group, version, { resource, responseKind, scope, verbs, shortNames }) {
  return {
    id: group && !OWN.has(group) ? `${resource}.${group}` : resource,
    group,
    version,
    plural: resource,
    kind: responseKind.kind,
    namespaced: scope === "Namespaced",
    verbs,
    short: shortNames ?? [],
    path: group ? `/apis/${group}/${version}` : `/api/${version}`,
  };
}

// Their kinds have no namesakes, so addresses can do without the group.
const OWN = new Set(["apps", "batch", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "rbac.authorization.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy", "networking.k8s.io", "autoscaling", "apiextensions.k8s.io"]);
// Pages of their own, under shorter names.
const ALIASES = { resourceclaims: "claims", resourceclaimtemplates: "claimtemplates", deviceclasses: "classes", resourceslices: "slices", resourcequotas: "quotas" };
const FULL = Object.fromEntries(Object.entries(ALIASES).map(([full, alias]) => [alias, full]));

/** The name of a kind's page. */
export const pageOf = (kind) => ALIASES[kind.id] ?? kind.id;

/** The kind of a page: by its name, singular or short name. */
export function kindOf(page) {
  const wanted = FULL[page] ?? page;
  return (
    kinds.value?.find(({ id }) => id === wanted) ??
    kinds.value?.find(({ plural, kind, short }) => plural === wanted || kind.toLowerCase() === wanted || short.includes(wanted))
  );
}

/** The API path of a kind's objects, or of one object. */
export function pathOf(kind, namespace = "", name = "") {
  const within = kind.namespaced && namespace ? `/namespaces/${namespace}` : "";
  return `${kind.path}${within}/${kind.plural}${name && `/${name}`}`;
}

/** The place of an object's page; undefined if the server has no such kind. */
export function placeOf({ apiVersion = "", kind, namespace, name }) {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  const found = kinds.value?.find((one) => one.kind === kind && one.group === group) ?? kinds.value?.find((one) => one.kind === kind);
  if (!found || !name) return undefined;
  return `${pageOf(found)}/${found.namespaced ? `${namespace}/` : ""}${name}`;
}
