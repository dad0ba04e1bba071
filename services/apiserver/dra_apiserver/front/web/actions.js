// What a person can do to a node or device: each action with the question that previews it, and the requests that do it.

import { request } from "./api.js";
import { informers } from "./cluster.js";

export const KEY = "dralab.io/console";
// In the version that this server serves them.
const rules = () => informers.rules.paths[0];
const MERGE = "application/merge-patch+json";

/** The actions on a device of a node: `{name, question, body, act(pods)}`; `act` gives what was done, in words. */
export function actionsOn(device) {
  const { node, driver, pool, name } = device;
  const taint = (effect) => ({
    name: `Taint device ${name}: ${effect}`,
    question: "taint",
    body: { key: KEY, effect, driver, pool, device: name },
    act: () => taintDevice(device, effect),
  });
  return [
    { name: `Drain node ${node}`, question: "drain", body: { nodes: [node] }, act: (pods) => drain(node, pods) },
    { name: `Lose node ${node}`, question: "remove", body: { nodes: [node] } },
    taint("NoSchedule"),
    taint("NoExecute"),
  ];
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
