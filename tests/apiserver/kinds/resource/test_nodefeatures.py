"""Test ResourceSlices with node-allocatable resources in the cases of upstream's NodeDeclaredFeatureValidator."""

import orjson
from dra_apiserver.errors import StatusError
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds import catalog
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.support.cases import each_case

GATE = "DRANodeAllocatableResources"
SLICES = catalog.registry("", kubernetes=V1_37).kind("resource.k8s.io", "v1", "ResourceSlice")
(PLUGIN,) = SLICES.admission.validating if SLICES else ()


def node(name: str, *features: str, pool: str = "with") -> JsonObject:
    return {"metadata": {"name": name, "labels": {"pool": pool}}, "status": {"declaredFeatures": features}}


NODES = {one["metadata"]["name"]: one for one in (node("able", GATE), node("unable", pool="without"))}


def select_pool(pool: str) -> JsonObject:
    wanted = {"key": "pool", "operator": "In", "values": [pool]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


def refusal(
    spec: JsonObject,
    device: JsonObject,
    *,
    takes: bool = True,
    gate: bool = True,
    version: Version = V1_37,
    operation: str = "CREATE",
) -> str:
    """Return the reason why a slice with one device is invalid, or "" if it is valid."""
    assert SLICES is not None
    taken = {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}} if takes else {}
    obj = {"metadata": {"name": "s"}, "spec": {**spec, "devices": [{"name": "d", **device, **taken}]}}

    def listing(group: str, plural: str, namespace: str) -> list[bytes]:
        return [orjson.dumps(one) for one in NODES.values()]

    context = Context(
        kind=SLICES,
        version="v1",
        namespace="",
        now="2026-01-01T00:00:00Z",
        features=FeatureGates(version, **({GATE: True} if gate else {})),
        lookup=lambda group, plural, namespace, name: NODES.get(name),
        listing=listing,
    )
    try:
        PLUGIN[1](obj, None, context, operation)
    except StatusError as error:
        return error.message.removeprefix('resourceslices.resource.k8s.io "s" is forbidden: ')
    return ""


EACH = {"perDeviceNodeSelection": True}
UNABLE = 'node "unable" does not support DRANodeAllocatableResources feature'
NOWHERE = 'device "d" in ResourceSlice has NodeAllocatableResources but does not map to any nodes'


@each_case(
    ("spec", "device", "why"),
    [
        ({"nodeName": "able"}, {}, ""),
        ({"nodeName": "unable"}, {}, UNABLE),
        ({"nodeName": "gone"}, {}, 'node "gone" not found for device "d"'),
        ({}, {}, NOWHERE),
        (select_pool("with"), {}, ""),
        (select_pool("without"), {}, UNABLE),
        ({"allNodes": True}, {}, UNABLE),
        (EACH, {"nodeName": "able"}, ""),
        (EACH, {"nodeName": "unable"}, UNABLE),
        (EACH, select_pool("with"), ""),
        (EACH, select_pool("without"), UNABLE),
        (EACH, {"allNodes": True}, UNABLE),
        (EACH, {}, NOWHERE),
    ],
)
def test_devices_with_node_resources_require_nodes_with_the_feature(
    spec: JsonObject, device: JsonObject, why: str
) -> None:
    assert refusal(spec, device) == why
    assert refusal(spec, device, operation="UPDATE") == why


def test_other_devices_require_no_node_feature() -> None:
    unable = {"nodeName": "unable"}
    assert refusal(unable, {}, takes=False) == ""
    assert refusal(unable, {}, gate=False) == ""
    assert refusal(unable, {}, version=V1_36) == ""


def test_the_admission_plugin_for_node_features_has_upstreams_name() -> None:
    assert PLUGIN[0] == "NodeDeclaredFeatureValidator"
