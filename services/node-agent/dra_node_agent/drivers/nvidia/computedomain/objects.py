"""The objects that the controller creates for a domain (templates/ of dra-driver-nvidia-gpu)."""

from typing import Any

from dra_shared.api.apps import DaemonSet
from dra_shared.api.codec import convert
from dra_shared.api.resource import ResourceClaimTemplate
from dra_shared.api.resources import DAEMON_SETS, RESOURCE_CLAIM_TEMPLATES

from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME, api
from dra_node_agent.drivers.nvidia.computedomain.api import ComputeDomain

# The maximum number of nodes in an NVLink domain of GB200 or GB300.
MOST_NODES = 18

_IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.0"
_DAEMON = "compute-domain-daemon"
_CLAIM = "compute-domain-daemon"


def daemon_template(domain: ComputeDomain, namespace: str) -> ResourceClaimTemplate:
    """Return the template of the daemons' claims. Each claim gets its node's daemon device."""
    uid = domain.metadata.uid
    parameters = {"apiVersion": api.API_VERSION, "kind": "ComputeDomainDaemonConfig", "domainID": uid}
    return _template(
        (namespace, api.owned_name(uid)), uid, api.DAEMON_TARGET, "daemon", api.DAEMON_CLASS, parameters
    )


def workload_template(domain: ComputeDomain, *, host_managed: bool) -> ResourceClaimTemplate:
    """Return the template that the domain's spec names. Each pod gets its node's channel.

    A machine's own IMEX daemon only has that channel, whatever the domain requests.
    """
    uid, channel = domain.metadata.uid, domain.spec.channel
    assert channel is not None
    parameters = {
        "apiVersion": api.API_VERSION,
        "kind": "ComputeDomainChannelConfig",
        "domainID": uid,
        "allocationMode": api.ONE_CHANNEL if host_managed else channel.allocation_mode,
    }
    place = (domain.metadata.namespace, channel.resource_claim_template.name)
    return _template(place, uid, api.WORKLOAD_TARGET, "channel", api.CHANNEL_CLASS, parameters)


def daemon_set(domain: ComputeDomain, namespace: str, gates: str) -> DaemonSet:
    """Return the DaemonSet, with a pod on each node that has the domain's label. ``gates`` are the driver's."""
    uid = domain.metadata.uid
    labels = {api.LABEL: uid}
    return convert(
        DAEMON_SETS,
        {
            "metadata": {
                "namespace": namespace,
                "name": api.owned_name(uid),
                "finalizers": [api.FINALIZER],
                "labels": labels,
            },
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _daemon_pod(uid, gates)},
            },
        },
    )


def _template(
    place: tuple[str, str], uid: str, target: str, request: str, class_name: str, parameters: dict[str, str]
) -> ResourceClaimTemplate:
    return convert(
        RESOURCE_CLAIM_TEMPLATES,
        {
            "metadata": {
                "namespace": place[0],
                "name": place[1],
                "finalizers": [api.FINALIZER],
                "labels": {api.LABEL: uid, api.TARGET_LABEL: target},
            },
            "spec": {
                "spec": {
                    "devices": {
                        "requests": [{"name": request, "exactly": {"deviceClassName": class_name}}],
                        "config": [
                            {
                                "requests": [request],
                                "opaque": {"driver": DRIVER_NAME, "parameters": parameters},
                            }
                        ],
                    }
                }
            },
        },
    )


def _daemon_pod(uid: str, gates: str) -> dict[str, Any]:
    return {
        "serviceAccountName": api.SERVICE_ACCOUNT,
        "nodeSelector": {api.LABEL: uid},
        "containers": [
            {
                "name": _DAEMON,
                "image": _IMAGE,
                "command": [_DAEMON, "-v", "$(LOG_VERBOSITY)", "run"],
                "env": [
                    {"name": "LOG_VERBOSITY", "value": "4"},
                    {"name": "MAX_NODES_PER_IMEX_DOMAIN", "value": str(MOST_NODES)},
                    _from_field("NODE_NAME", "spec.nodeName"),
                    _from_field("POD_IP", "status.podIP"),
                    _from_field("POD_UID", "metadata.uid"),
                    _from_field("POD_NAME", "metadata.name"),
                    _from_field("POD_NAMESPACE", "metadata.namespace"),
                    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
                    {"name": "FEATURE_GATES", "value": gates},
                ],
                "resources": {"claims": [{"name": _CLAIM}]},
                # Allow twenty minutes to start. Afterwards, a failed probe makes the daemon not ready but does
                # not restart it.
                "startupProbe": _check(period=1, failures=1200),
                "livenessProbe": _check(period=60, failures=20),
                "readinessProbe": _check(period=10, failures=1),
            }
        ],
        "tolerations": [
            {"operator": "Exists", "effect": effect}
            for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
        ],
        "resourceClaims": [{"name": _CLAIM, "resourceClaimTemplateName": api.owned_name(uid)}],
    }


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _check(period: int, failures: int) -> dict[str, Any]:
    return {
        "exec": {"command": [_DAEMON, "-v", "$(LOG_VERBOSITY)", "check"]},
        "periodSeconds": period,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
        "successThreshold": 1,
    }
