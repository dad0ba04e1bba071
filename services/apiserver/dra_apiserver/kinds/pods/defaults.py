"""Defaults of pods and pod templates (upstream's `pkg/apis/core/v1/defaults.go`)."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject

_FILE_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")


def image_pull_policy(image: str) -> str:
    """Return the default pull policy: ``Always`` for an image without tag or digest, or with ``latest``."""
    name, at, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if not tag and not at:
        tag = "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """Yield all containers of a pod spec: init, regular and ephemeral ones."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def pod(obj: JsonObject, _version: str, _now: str) -> None:
    """Set the defaults of a Pod: those of its spec, and those of fields that templates do not have."""
    spec = obj.setdefault("spec", {})
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        limits_to_requests(container.get("resources"))
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    pod_spec(spec)


def limits_to_requests(resources: JsonObject | None) -> None:
    """Set missing requests to the limits."""
    if resources and resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, value in resources["limits"].items():
            requests.setdefault(name, value)


def pod_template(template: JsonObject | None) -> None:
    """Set the defaults of a workload's pod template."""
    if template is not None:
        pod_spec(template.setdefault("spec", {}))


def pod_spec(spec: JsonObject) -> None:
    """Set the defaults that pods and pod templates share."""
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


def _container(container: JsonObject) -> None:
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
    for name in _PROBES:
        _probe(container.get(name))
    lifecycle = container.get("lifecycle") or {}
    for name in _HOOKS:
        _http_get(lifecycle.get(name))


def default_protocols(obj: JsonObject) -> None:
    """Set the protocol of a pod's HTTP probes and hooks."""
    for request in _list_http_gets(obj.get("spec") or {}):
        request.setdefault("protocol", "HTTP1")


def _list_http_gets(spec: JsonObject) -> Iterator[JsonObject]:
    for container in containers(spec):
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(name) for name in _PROBES] + [lifecycle.get(name) for name in _HOOKS]
        for handler in handlers:
            if handler and handler.get("httpGet") is not None:
                yield handler["httpGet"]


def _field_ref(source: JsonObject) -> None:
    if source.get("fieldRef") is not None:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _http_get(handler: JsonObject | None) -> None:
    request = (handler or {}).get("httpGet")
    if request is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _probe(probe: JsonObject | None) -> None:
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


def volume_defaults(volume: JsonObject) -> None:
    """Set the defaults of one volume of a pod. Without a source, it is an empty directory."""
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


def standalone_template(obj: JsonObject, _version: str, _now: str) -> None:
    pod_template(obj.setdefault("template", {}))
