"""Feature gates that the objects of a cluster need are enabled."""

from typing import Any

from dra_apiserver.common.gates import GatedFields
from dra_apiserver.kinds.pods import gates as pod_gates
from dra_apiserver.kinds.resource import gates as resource_gates
from dra_apiserver.kinds.scheduling import declared
from dra_scheduler.plan.neededgates import FIELDS, found_in
from dra_scheduler.plan.objects import Objects
from dra_shared.api.codec import convert
from dra_shared.api.resources import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version

from tests.support.cases import each_case

_SERVERS: list[tuple[Resource[Any], tuple[GatedFields, ...]]] = [
    (RESOURCE_SLICES, resource_gates.SLICE),
    (RESOURCE_CLAIMS, (*resource_gates.CLAIM, *resource_gates.CLAIM_STATUS)),
    (RESOURCE_CLAIM_TEMPLATES, resource_gates.CLAIM_TEMPLATE),
    (DEVICE_CLASSES, resource_gates.CLASS),
    (PODS, (*pod_gates.POD, *pod_gates.POD_STATUS)),
    (POD_GROUPS, declared._SPEC),
]
# Fields that do not affect the scheduler, and that the typed objects lack.
_UNREAD = {
    "status.devices.*.shareID",
    "status.allocation.allocationTimestamp",
    "spec.compositePodGroupTemplates",
}
# The scheduler does not read the fields that need these gates either.
_UNREAD_GATES = {
    "AtomicWriteVolumeUserFields",
    "CSIVolumeHealth",
    "DynamicResourceAllocation",
    "EmptyDirVolumeMode",
    "EvictionRequestAPI",
    "GRPCContainerProbeTLS",
    "H2CContainerProbe",
    "ResourceHealthStatus",
    "ResourceHealthStatusMessage",
    "VolumeBindMountOptions",
}


@each_case(
    ("resource", "path", "gates"),
    [
        (resource, path, rule.gates)
        for resource, rules in _SERVERS
        for rule in rules
        for path in rule.fields
        if path not in _UNREAD and not _UNREAD_GATES.issuperset(rule.gates)
    ],
)
def test_every_field_that_the_server_drops_shows_its_gate(
    resource: Resource[Any], path: str, gates: tuple[str, ...]
) -> None:
    assert set(gates) <= set(FIELDS[resource].get(path, gates))
    assert path in FIELDS[resource]


def _obj(resource: Resource[Any], value: JsonObject) -> tuple[Resource[Any], Any]:
    return resource, convert(resource, {"metadata": {"name": "x"}, **value})


def _slice(**device: Any) -> tuple[Resource[Any], Any]:
    return _obj(RESOURCE_SLICES, {"spec": {"devices": [{"name": "a"}, {"name": "b", **device}]}})


_NEED: list[tuple[tuple[Resource[Any], Any], str, Version]] = [
    (_slice(taints=[{"key": "k", "effect": "NoSchedule"}]), "DRADeviceTaints", V1_34),
    (_slice(allowMultipleAllocations=True), "DRAConsumableCapacity", V1_35),
    (_slice(consumesCounters=[{"counterSet": "s", "counters": {}}]), "DRAPartitionableDevices", V1_35),
    (_slice(bindsToNode=True), "DRADeviceBindingConditions", V1_35),
    (_slice(attributes={"a": {"ints": [1]}}), "DRAListTypeAttributes", V1_36),
    (_obj(RESOURCE_SLICES, {"spec": {"sharedCounters": [{"name": "s"}]}}), "DRAPartitionableDevices", V1_34),
    (_obj(DEVICE_CLASSES, {"spec": {"extendedResourceName": "a.b/c"}}), "DRAExtendedResource", V1_35),
    (_obj(DEVICE_TAINT_RULES, {"spec": {}}), "DRADeviceTaintRules", V1_36),
    (_obj(DEVICE_TAINT_RULES, {"spec": {}}), "DRADeviceTaints", V1_34),
    (_obj(POD_GROUPS, {"spec": {}}), "GangScheduling", V1_36),
    (
        _obj(POD_GROUPS, {"spec": {"resourceClaims": [{"name": "c"}]}}),
        "DRAWorkloadResourceClaims",
        V1_37,
    ),
    (_obj(COMPOSITE_POD_GROUPS, {"spec": {}}), "CompositePodGroup", V1_37),
    (
        _obj(NODES, {"status": {"declaredFeatures": ["GuaranteedQoSPodCPUResize"]}}),
        "NodeDeclaredFeatures",
        V1_35,
    ),
    (
        _obj(
            PODS,
            {
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}},
                        }
                    ]
                }
            },
        ),
        "DRAExtendedResource",
        V1_34,
    ),
    (
        _obj(
            RESOURCE_CLAIMS,
            {
                "status": {
                    "allocation": {
                        "devices": {
                            "results": [
                                {"request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": "s"}
                            ]
                        }
                    }
                }
            },
        ),
        "DRAConsumableCapacity",
        V1_35,
    ),
]


@each_case(("found", "gate", "version"), _NEED)
def test_feature_gates_that_the_objects_of_a_dump_need_are_enabled(
    found: tuple[Resource[Any], Any], gate: str, version: Version
) -> None:
    assert not Objects().gates({}, version).enabled(gate)
    world = Objects().with_objects([found])
    gates = world.gates({}, version)
    assert gates.enabled(gate)
    assert not gates.find_unmet()
    assert gate in [need.gate for need in world.needs({}, version)]
    assert not world.gates({gate: False}, version).enabled(gate)
    # The cluster's gate does not change with a variant of its world.
    assert world.without(found[0], world.of(found[0])).gates({}, version).enabled(gate)


def test_gates_that_are_enabled_by_default_are_not_named() -> None:
    world = Objects().with_objects([_slice(taints=[{"key": "k", "effect": "NoSchedule"}])])
    assert world.needs({}, V1_37) == []


def test_a_gate_stays_disabled_if_its_dependency_is_disabled() -> None:
    world = Objects().with_objects([_obj(DEVICE_TAINT_RULES, {"spec": {}})])
    gates = world.gates({"DRADeviceTaints": False}, V1_36)
    assert not gates.enabled("DRADeviceTaintRules")
    assert not gates.find_unmet()


def test_plain_objects_need_no_gate() -> None:
    assert found_in(*(lambda found: (found[0], [found[1]]))(_slice()), {}) == {}
