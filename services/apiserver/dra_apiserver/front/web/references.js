// The objects that an object refers to, and the images that it runs. Pure.

// The kinds that fields name, and that fields with an object name, wherever they stand in a spec.
const NAMES = {
  nodeName: "Node",
  serviceAccountName: "ServiceAccount",
  deviceClassName: "DeviceClass",
  resourceClaimName: "ResourceClaim",
  resourceClaimTemplateName: "ResourceClaimTemplate",
  priorityClassName: "PriorityClass",
  runtimeClassName: "RuntimeClass",
  storageClassName: "StorageClass",
  secretName: "Secret",
  claimName: "PersistentVolumeClaim",
  volumeName: "PersistentVolume",
};
const OBJECTS = { configMap: "ConfigMap", configMapKeyRef: "ConfigMap", configMapRef: "ConfigMap", secretKeyRef: "Secret", secretRef: "Secret" };

/** `[{kind, name, namespace}]`, each once, in the order of the spec. */
export function references({ metadata: { namespace }, spec, status, roleRef }) {
  const found = new Map();
  const add = (kind, name) => typeof name === "string" && name && found.set(`${kind}/${name}`, { kind, name, namespace });
  const walk = (value) => {
    if (Array.isArray(value)) value.forEach(walk);
    else if (value && typeof value === "object") {
      for (const [field, one] of Object.entries(value)) {
        if (NAMES[field]) add(NAMES[field], one);
        else if (OBJECTS[field]) add(OBJECTS[field], one?.name);
        else walk(one);
      }
      if (value.kind && value.name && value !== spec) add(value.kind, value.name);
    }
  };
  walk(spec);
  walk(roleRef);
  for (const one of status?.resourceClaimStatuses ?? []) add("ResourceClaim", one.resourceClaimName);
  return [...found.values()];
}

/** The images in the pods of a spec. */
export function images(spec) {
  const found = new Set();
  const walk = (value) => {
    if (Array.isArray(value)) value.forEach(walk);
    else if (value && typeof value === "object") {
      for (const [field, one] of Object.entries(value)) {
        if (field === "image" && typeof one === "string") found.add(one);
        else walk(one);
      }
    }
  };
  walk(spec);
  return [...found];
}
