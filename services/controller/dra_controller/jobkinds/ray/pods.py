"""The pods of a RayCluster.

Mirrors ray-operator/controllers/ray/common/pod.go.
"""

import copy
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.operators import Custom
from dra_controller.jobkinds.ray.names import (
    CLUSTER,
    CREATED_BY,
    DISABLED_COMMAND,
    GROUP,
    HEAD_GROUP,
    HOST_INDEX,
    IDENTIFIER,
    NODE_TYPE,
    ORIGIN,
    REPLICA_INDEX,
    REPLICA_NAME,
    name_pod,
    service_domain,
)
from dra_controller.jobkinds.ray.startparams import complete_params, format_command, head_port

_SHELL = ["/bin/bash", "-c", "--"]
_HEALTH = "wget --tries 1 -T {} -q -O- http://localhost:{}/{} | grep success"
_WAIT = """
SECONDS=0
until ray health-check --address {0}:{1} > /dev/null 2>&1; do
  echo "$SECONDS seconds elapsed: Waiting for GCS to be ready."
  sleep 5
done
echo "GCS is ready."
"""


def build_head(cluster: Custom) -> JsonObject:
    """Return the head pod of the cluster."""
    group = cluster.spec["headGroupSpec"]
    pod = _begin(cluster, group, "head", HEAD_GROUP)
    pod["metadata"]["name"] = name_pod(cluster.metadata.name, "head")
    return _finish(cluster, pod, group, "head")


def build_worker(
    cluster: Custom, group: JsonObject, replica: int, host: int = 0, replica_name: str = ""
) -> JsonObject:
    """Return a worker pod of a group."""
    pod = _begin(cluster, group, "worker", group["groupName"])
    meta, container = pod["metadata"], pod["spec"]["containers"][0]
    prefix = f"{cluster.metadata.name}-{group['groupName']}"
    meta["generateName"] = f"{name_pod(prefix, 'worker')}-"
    meta["labels"][REPLICA_INDEX] = str(replica)
    if replica_name:
        meta["labels"] |= {REPLICA_NAME: replica_name, HOST_INDEX: str(host)}
    port = head_port(cluster.spec["headGroupSpec"].get("rayStartParams") or {})
    few = {"cpu": "200m", "memory": "256Mi"}
    waiting = {
        "name": "wait-gcs-ready",
        "image": container["image"],
        "command": _SHELL,
        "args": [_WAIT.format(service_domain(cluster), port)],
        "env": copy.deepcopy(container.get("env") or []),
        "volumeMounts": copy.deepcopy(container.get("volumeMounts") or []),
        "resources": {"limits": few, "requests": few},
    }
    for key in ("imagePullPolicy", "securityContext"):
        if key in container:
            waiting[key] = container[key]
    pod["spec"].setdefault("initContainers", []).append(waiting)
    return _finish(cluster, pod, group, "worker")


def _begin(cluster: Custom, group: JsonObject, kind: str, name: str) -> JsonObject:
    pod: JsonObject = copy.deepcopy(group["template"])
    meta = pod.get("metadata") or {}
    own = {
        "ray.io/is-ray-node": "yes",
        IDENTIFIER: f"{cluster.metadata.name}-{kind}"[-63:],
        "app.kubernetes.io/name": "kuberay",
        CREATED_BY: "kuberay-operator",
    }
    fixed = {CLUSTER: cluster.metadata.name, NODE_TYPE: kind, GROUP: name}
    labels = {**own, **(meta.get("labels") or {}), **(group.get("labels") or {}), **fixed}
    annotations = dict(meta.get("annotations") or {})
    if _keeps_command(cluster.metadata.annotations):
        annotations[DISABLED_COMMAND] = "true"
    pod["metadata"] = {"labels": labels, "annotations": annotations}
    container = pod["spec"]["containers"][0]
    ports = container.setdefault("ports", [])
    if all(port.get("name") != "metrics" for port in ports):
        ports.append({"name": "metrics", "containerPort": 8080})
    return pod


def _keeps_command(annotations: dict[str, str]) -> bool:
    return annotations.get(DISABLED_COMMAND, "").lower() == "true"


def _finish(cluster: Custom, pod: JsonObject, group: JsonObject, kind: str) -> JsonObject:
    container = pod["spec"]["containers"][0]
    resources = container.get("resources") or {}
    port = head_port(cluster.spec["headGroupSpec"].get("rayStartParams") or {})
    domain = service_domain(cluster)
    params = complete_params(group, resources, "" if kind == "head" else f"{domain}:{port}")
    if "plasma-directory" not in params:
        _add_shared_memory(pod["spec"], container, resources)
    command = format_command(params, head=kind == "head")
    before = "".join(f" {word} " for word in (*container.get("command", ()), *container.get("args", ())))
    if not _keeps_command(pod["metadata"]["annotations"]) and "ray start" not in before:
        whole = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {command}"
        container["command"] = _SHELL
        container["args"] = [f"{before} && {whole}" if before else whole]
    for one in pod["spec"].get("initContainers") or ():
        one.setdefault("env", []).extend(_address_variables(domain))
    _add_variables(cluster, container, kind, domain, port, command)
    _add_probes(container, params, kind)
    return pod


def _add_shared_memory(spec: JsonObject, container: JsonObject, resources: JsonObject) -> None:
    mounts = container.setdefault("volumeMounts", [])
    if any(mount["mountPath"] == "/dev/shm" for mount in mounts):
        return
    volumes = spec.setdefault("volumes", [])
    if all(volume["name"] != "shared-mem" for volume in volumes):
        memory = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.get("memory")
        source = {"medium": "Memory", **({"sizeLimit": memory} if memory is not None else {})}
        volumes.append({"name": "shared-mem", "emptyDir": source})
    mounts.append({"name": "shared-mem", "mountPath": "/dev/shm"})


def _address_variables(domain: str) -> list[JsonObject]:
    return [
        {"name": "FQ_RAY_IP", "value": domain},
        {"name": "RAY_IP", "value": domain.partition(".")[0]},
    ]


def _field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _add_variables(
    cluster: Custom, container: JsonObject, kind: str, domain: str, port: str, command: str
) -> None:
    variables = container.setdefault("env", [])
    address = domain if kind == "worker" else "127.0.0.1"
    if kind == "worker":
        variables += _address_variables(domain)
    variables += [
        _field("RAY_CLUSTER_NAME", f"metadata.labels['{CLUSTER}']"),
        _field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
        _field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
        _field("RAY_NODE_TYPE_NAME", f"metadata.labels['{GROUP}']"),
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": command},
    ]
    present = {one["name"] for one in variables}
    origin = cluster.metadata.labels.get(ORIGIN, "RayCluster")
    defaults: dict[str, Any] = {
        "RAY_PORT": port,
        "RAY_ADDRESS": f"{address}:{port}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    }
    if kind == "head":
        tags = f"kuberay_version=nightly;kuberay_crd={origin}"
        variables.append({"name": "RAY_USAGE_STATS_EXTRA_TAGS", "value": tags})
    variables += [{"name": key, "value": value} for key, value in defaults.items() if key not in present]


def _add_probes(container: JsonObject, params: dict[str, str], kind: str) -> None:
    agent = params["dashboard-agent-listen-port"]
    checks = [_HEALTH.format(2, agent, "api/local_raylet_healthz")]
    if kind == "head":
        checks.append(_HEALTH.format(10, params.get("dashboard-port", "8265"), "api/gcs_healthz"))
    for name, delay, failures in (("livenessProbe", 30, 120), ("readinessProbe", 10, 10)):
        container.setdefault(
            name,
            {
                "initialDelaySeconds": delay,
                "timeoutSeconds": 5 if kind == "head" else 2,
                "periodSeconds": 5,
                "successThreshold": 1,
                "failureThreshold": failures,
                "exec": {"command": ["bash", "-c", " && ".join(checks)]},
            },
        )
