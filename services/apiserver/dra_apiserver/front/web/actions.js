// What a person can do to a node or device: each action with the question that previews it, and the requests that do it.

import { request } from "./api.js";
import { claimPath, flat, informers, podPath } from "./cluster.js";

export const KEY = "dralab.io/console";
// In the version that this server serves them.
const rules = () => informers.rules.paths[0];
const slicesPath = () => informers.slices.paths[0];
const MERGE = "application/merge-patch+json";

const COPIES = 5;

/**
 * The actions on a device of a node: `{name, question, body, act(pods), note}`; `act` gives what was done, in words. A body
 * that has to be asked for is a function.
 */
export function actionsOn(device) {
  const { node, driver, pool, name } = device;
  const taint = (effect) => ({
    name: `Taint device ${name}: ${effect}`,
    question: "taint",
    body: { key: KEY, effect, driver, pool, device: name },
    act: () => taintDevice(device, effect),
  });
  return [
    draining(node),
    { name: `Lose node ${node}`, question: "remove", body: { nodes: [node] } },
    taint("NoSchedule"),
    taint("NoExecute"),
    { name: `Lose device ${name}`, question: "change", changes: true, body: () => without(device) },
    adding(node),
  ];
}

/** The actions on a node. */
export function actionsOnNode(node) {
  const taint = (effect) => ({
    name: `Taint node ${node}: ${effect}`,
    question: "taint",
    body: { key: KEY, effect, node },
    act: () => taintNode(node, effect),
  });
  const remove = async () => {
    await request(`/api/v1/nodes/${node}`, { method: "DELETE" });
    return `node ${node} is deleted`;
  };
  return [
    draining(node),
    taint("NoSchedule"),
    taint("NoExecute"),
    { name: `Delete node ${node}`, question: "remove", body: { nodes: [node] }, act: remove },
    adding(node),
  ];
}

const draining = (node) => ({ name: `Drain node ${node}`, question: "drain", body: { nodes: [node] }, act: (pods) => drain(node, pods) });

export const adding = (node) => ({
  name: `Add five nodes such as ${node}`,
  question: "change",
  body: () => copies(node),
  note: `A cluster of dralab gets them by: dralab node add NAME --count ${COPIES}`,
});

/** The action that makes a cordoned node schedulable again. */
export const uncordoning = (node) => ({
  name: `Uncordon node ${node}`,
  question: "change",
  changes: true,
  body: async () => {
    const found = await request(`/api/v1/nodes/${node}`);
    return { objects: [{ ...found, spec: { ...found.spec, unschedulable: false } }] };
  },
  act: () => cordon(node, false),
});

/** The actions on a pod: what deleting it would make room for. */
export const actionsOnPod = (pod) => [actionsOnPods(`Delete pod ${pod.name}`, podPath(pod), () => [pod], `pod ${pod.key} is deleted`)];

/** The deletion of an object, and what would become of the other pods without those that go with it. */
export function actionsOnPods(name, path, gone, done = `${name.replace("Delete ", "")} is deleted`) {
  const act = async () => {
    await request(`${path}?propagationPolicy=Background`, { method: "DELETE" });
    return done;
  };
  const body = async () => ({ objects: (await Promise.all(gone().map(ended))).flat() });
  return { name, question: "change", changes: true, others: "other pods", body, act };
}

/** The pod as one that has ended, which holds nothing, and the claims that it alone has as free. */
async function ended(pod) {
  const found = await request(podPath(pod));
  const claims = await Promise.all(pod.claims.map((name) => request(claimPath({ namespace: pod.namespace, name }))));
  const alone = claims.filter(({ status }) => (status?.reservedFor ?? []).every((one) => one.uid === found.metadata.uid));
  return [{ ...found, status: { ...found.status, phase: "Succeeded" } }, ...alone.map((claim) => ({ ...claim, status: {} }))];
}

/** The device's slice without it. */
async function without({ driver, pool, name }) {
  const found = await slicesWith("spec.driver", driver);
  const objects = found
    .filter(({ spec }) => spec.pool.name === pool && spec.devices.some((one) => one.name === name))
    .map((slice) => ({ ...slice, spec: { ...slice.spec, devices: slice.spec.devices.filter((one) => one.name !== name) } }));
  return { objects };
}

/** The slices with a field's value, in the version that the scheduler's questions take. */
async function slicesWith(field, value) {
  const { items } = await request(`${slicesPath()}?fieldSelector=${field}%3D${value}`);
  return items.map(({ metadata, spec }) => ({
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceSlice",
    metadata,
    spec: { ...spec, devices: (spec.devices ?? []).map(flat) },
  }));
}

/** Nodes like one that is there, with devices like its own. */
async function copies(name) {
  const [node, slices] = await Promise.all([
    request(`/api/v1/nodes/${name}`),
    slicesWith("spec.nodeName", name),
  ]);
  const objects = Array.from({ length: COPIES }, (_, index) => `${name}-copy-${index + 1}`).flatMap((copy) => [
    { ...node, metadata: { name: copy, labels: { ...node.metadata.labels, "kubernetes.io/hostname": copy } }, spec: { ...node.spec, unschedulable: false } },
    ...slices.map(({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: { name: `${copy}-${metadata.name}` },
      spec: { ...spec, nodeName: copy, pool: { ...spec.pool, name: spec.pool.name === name ? copy : `${spec.pool.name}-${copy}` } },
    })),
  ]);
  return { objects };
}

/** Cordons the node and evicts its pods, as `kubectl drain` does; a budget that forbids one is reported. */
async function drain(node, pods) {
  await cordon(node, true);
  const refused = [];
  let evicted = 0;
  for (const pod of pods.filter((one) => one.node === node && one.evictable)) {
    const body = {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata: { name: pod.name, namespace: pod.namespace },
    };
    try {
      await request(`/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/eviction`, { method: "POST", body });
      evicted += 1;
    } catch (error) {
      refused.push(`${pod.key}: ${error.message}`);
    }
  }
  return [`node ${node} is cordoned, ${evicted} pods are evicted`, ...refused].join("; ");
}

/** Makes a node unschedulable, or schedulable again. */
export async function cordon(node, unschedulable) {
  const body = { spec: { unschedulable } };
  await request(`/api/v1/nodes/${node}`, { method: "PATCH", body, type: MERGE });
  return `node ${node} is ${unschedulable ? "cordoned" : "schedulable again"}`;
}

const ours = ({ key }) => key === KEY;

async function taintNode(node, effect) {
  await changeTaints(node, (taints) => [...taints.filter((one) => !ours(one) || one.effect !== effect), { key: KEY, effect }]);
  return `node ${node} is tainted`;
}

/** Removes the taints that the console has put on a node. */
export async function untaintNode(node) {
  await changeTaints(node, (taints) => taints.filter((one) => !ours(one)));
  return `node ${node} has no taint of the console any more`;
}

async function changeTaints(node, change) {
  const path = `/api/v1/nodes/${node}`;
  const { metadata, spec } = await request(path);
  // With its version: who changed the taints meanwhile is not overruled.
  const body = { metadata: { resourceVersion: metadata.resourceVersion }, spec: { taints: change(spec.taints ?? []) } };
  await request(path, { method: "PATCH", body, type: MERGE });
}

async function taintDevice({ driver, pool, name }, effect) {
  const spec = { deviceSelector: { driver, pool, device: name }, taint: { key: KEY, effect } };
  const body = { metadata: { generateName: "console-" }, spec };
  const { metadata } = await request(rules(), { method: "POST", body });
  return `devicetaintrule ${metadata.name} is created`;
}

/** Removes the rule that taints a device. */
export async function untaint(rule) {
  await request(`${rules()}/${rule}`, { method: "DELETE" });
  return `devicetaintrule ${rule} is deleted`;
}
