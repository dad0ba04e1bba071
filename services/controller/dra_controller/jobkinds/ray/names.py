"""Names and labels of Ray's objects, and the Services of a cluster.

Mirrors ray-operator/controllers/ray/utils and common/service.go.
"""

from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.operators import Custom

CLUSTER = "ray.io/cluster"
NODE_TYPE = "ray.io/node-type"
GROUP = "ray.io/group"
IDENTIFIER = "ray.io/identifier"
ORIGIN = "ray.io/originated-from-crd"
ORIGIN_NAME = "ray.io/originated-from-cr-name"
CREATED_BY = "app.kubernetes.io/created-by"
HEAD_GROUP = "headgroup"
REPLICA_NAME = "ray.io/worker-group-replica-name"
REPLICA_INDEX = "ray.io/worker-group-replica-index"
HOST_INDEX = "ray.io/replica-host-index"
DISABLED_COMMAND = "ray.io/overwrite-container-cmd"
MANAGER = "ray.io/kuberay-operator"
_LONGEST = 50
_PORTS = {"client": 10001, "gcs-server": 6379, "dashboard": 8265, "metrics": 8080, "serve": 8000}


def name_pod(prefix: str, kind: str) -> str:
    """Return the name of a head, or the beginning of a worker's."""
    return f"{prefix[:_LONGEST]}-{kind}".lower()


def service_name(cluster: Custom) -> str:
    """Return the name of the head's Service."""
    service = cluster.spec["headGroupSpec"].get("headService") or {}
    name: str = (service.get("metadata") or {}).get("name") or f"{cluster.metadata.name}-head-svc"
    return name


def service_domain(cluster: Custom) -> str:
    """Return the domain name of the head's Service."""
    return f"{service_name(cluster)}.{cluster.metadata.namespace}.svc.cluster.local"


def build_head_service(cluster: Custom) -> JsonObject:
    """Return the Service of the head. It is headless unless its type says otherwise."""
    group, name = cluster.spec["headGroupSpec"], cluster.metadata.name
    own = {
        CLUSTER: name,
        NODE_TYPE: "head",
        IDENTIFIER: f"{name}-head"[-63:],
        "app.kubernetes.io/name": "kuberay",
        CREATED_BY: "kuberay-operator",
    }
    labels = (group["template"].get("metadata") or {}).get("labels") or {}
    selector = {key: labels.get(key, value) for key, value in own.items()}
    found = {
        port.get("name") or f"{port['containerPort']}-port": port["containerPort"]
        for port in group["template"]["spec"]["containers"][0].get("ports") or ()
    }
    numbers = {"metrics": _PORTS["metrics"], **(found or _PORTS)}
    ports = [{"name": one, "port": numbers[one], "appProtocol": "tcp"} for one in sorted(numbers)]
    annotations = cluster.spec.get("headServiceAnnotations") or {}
    kind = group.get("serviceType", "")
    custom = group.get("headService")
    if custom is not None:
        meta, spec = custom.get("metadata") or {}, custom.get("spec") or {}
        return {
            "metadata": {
                "name": service_name(cluster),
                "labels": {**(meta.get("labels") or {}), **selector},
                "annotations": {**(meta.get("annotations") or {}), **annotations},
            },
            "spec": {
                **({"type": kind} if kind else {}),
                **spec,
                "selector": selector,
                "ports": [*(spec.get("ports") or ()), *ports],
            },
        }
    spec = {"selector": selector, "ports": ports, **({"type": kind} if kind else {})}
    if kind in ("", "ClusterIP"):
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {
        "metadata": {"name": service_name(cluster), "labels": selector, "annotations": annotations},
        "spec": spec,
    }


def build_headless_service(cluster: Custom) -> JsonObject:
    """Return the Service by which the hosts of a replica find each other."""
    name = cluster.metadata.name
    return {
        "metadata": {"name": f"{name}-headless", "labels": {"ray.io/headless-worker-svc": name}},
        "spec": {
            "clusterIP": "None",
            "selector": {CLUSTER: name, NODE_TYPE: "worker"},
            "publishNotReadyAddresses": True,
        },
    }
