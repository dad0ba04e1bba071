"""Defaults of the core group, as ``pkg/apis/core/v1/defaults.go`` sets them."""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Object = dict[str, Any]

_FILE_MODE = 0o644


def image_pull_policy(image: str) -> str:
    """``Always`` for an image that may change under its name (no tag, no digest, or ``latest``)."""
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if not tag and not at:
        tag = "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def containers(spec: Object) -> Iterator[Object]:
    """All containers of a pod spec: init, ordinary and ephemeral ones."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def pod(obj: Object, _version: str) -> None:
    """A Pod: its spec, and what only pods (not templates) have."""
    spec = obj.setdefault("spec", {})
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        limits_to_requests(container.get("resources"))
    if spec.get("resources"):
        limits_to_requests(spec["resources"])
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    pod_spec(spec)


def limits_to_requests(resources: Object | None) -> None:
    """A limit without a request is the request too."""
    if resources and resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, value in resources["limits"].items():
            requests.setdefault(name, value)


def pod_template(template: Object | None) -> None:
    """The pod template of a workload."""
    if template is not None:
        pod_spec(template.setdefault("spec", {}))


def pod_spec(spec: Object) -> None:
    """What pods and pod templates share."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName") and not spec.get("serviceAccount"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in containers(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        volume_defaults(volume)


def _container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = image_pull_policy(container.get("image") or "")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        _field_ref(source)
        if source.get("fileKeyRef") is not None:
            source["fileKeyRef"].setdefault("optional", False)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        _probe(container.get(name))
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        _http_get(lifecycle.get(name))


def _field_ref(source: Object) -> None:
    if source.get("fieldRef") is not None:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _http_get(handler: Object | None) -> None:
    request = (handler or {}).get("httpGet")
    if request is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _probe(probe: Object | None) -> None:
    if probe is None:
        return
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(name, value)
    _http_get(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def volume_defaults(volume: Object) -> None:
    """One volume of a pod; a volume that names no source is an empty directory."""
    if not any(key != "name" and value is not None for key, value in volume.items()):
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _field_ref(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _field_ref(item)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if volume.get("iscsi") is not None:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = image_pull_policy(image.get("reference") or "")
    ephemeral = volume.get("ephemeral")
    if ephemeral is not None and ephemeral.get("volumeClaimTemplate") is not None:
        ephemeral["volumeClaimTemplate"].setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _service(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    external = spec["type"] in ("NodePort", "LoadBalancer") or (
        spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if external:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        for ingress in balancer.get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _secret(obj: Object, _version: str) -> None:
    obj.setdefault("type", "Opaque")
    # Plain text is for writing only: it is kept, and shown, as data.
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update((key, base64.b64encode(value.encode()).decode()) for key, value in plain.items())


def claim_defaults(obj: Object) -> None:
    """A PersistentVolumeClaim, also as a template of a StatefulSet."""
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _claim(obj: Object, _version: str) -> None:
    claim_defaults(obj)


def _volume(obj: Object, _version: str) -> None:
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")


def _namespace(obj: Object, _version: str) -> None:
    obj.setdefault("status", {}).setdefault("phase", "Active")
    metadata = obj.setdefault("metadata", {})
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]


def _node(obj: Object, _version: str) -> None:
    spec = obj.get("spec") or {}
    # The single range is the first of them: either is filled in from the other.
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs") and not spec.get("podCIDR"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _limit_range(obj: Object, _version: str) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        defaults = item.setdefault("default", {})
        for name, value in (item.get("max") or {}).items():
            defaults.setdefault(name, value)
        requests = item.setdefault("defaultRequest", {})
        for source in (defaults, item.get("min") or {}):
            for name, value in source.items():
                requests.setdefault(name, value)
        for name in ("default", "defaultRequest"):
            if not item[name]:
                del item[name]


def _replication_controller(obj: Object, _version: str) -> None:
    spec = obj.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    pod_template(spec.get("template"))


def _pod_template(obj: Object, _version: str) -> None:
    pod_template(obj.setdefault("template", {}))


def _endpoints(obj: Object, _version: str) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


RULES: Mapping[tuple[str, str], Callable[[Object, str], None]] = {
    ("", "Pod"): pod,
    ("", "Service"): _service,
    ("", "Secret"): _secret,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "LimitRange"): _limit_range,
    ("", "ReplicationController"): _replication_controller,
    ("", "PodTemplate"): _pod_template,
    ("", "Endpoints"): _endpoints,
}
