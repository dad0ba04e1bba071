"""Test the validation of CSI drivers' objects and EndpointSlices against kube-apiserver 1.36.2."""

from typing import Any

from dra_apiserver.kinds.networking.endpointslices import check_endpoint_slice
from dra_apiserver.kinds.storage.csi import (
    check_csi_node,
    check_csi_node_status,
    check_storage_capacity,
    check_volume_attributes_class,
)
from dra_shared.jsontypes import JsonObject

DRIVER: JsonObject = {"name": "d.example.com", "nodeID": "a", "topologyKeys": ["zone"]}


def node(*drivers: JsonObject) -> JsonObject:
    return {"spec": {"drivers": list(drivers)}}


def slice_of(kind: str = "IPv4", **endpoint: Any) -> JsonObject:
    return {"addressType": kind, "endpoints": [{"addresses": ["10.0.0.1"], **endpoint}]}


def texts(errors: Any) -> list[str]:
    return [str(error) for error in errors]


def test_drivers_of_a_csi_node_are_validated() -> None:
    assert texts(check_csi_node(node(DRIVER, {**DRIVER, "nodeID": ""}), None)) == [
        "spec.drivers[1].nodeID: Required value",
        'spec.drivers[1].name: Duplicate value: "d.example.com"',
    ]


def test_only_the_volume_limit_of_a_csi_node_driver_may_change() -> None:
    grown = {**DRIVER, "allocatable": {"count": 5}}
    assert texts(check_csi_node(node(grown), node(DRIVER))) == []
    assert texts(check_csi_node(node({**DRIVER, "nodeID": "b"}), node(DRIVER))) == [
        'spec.drivers: Invalid value: {"Name":"d.example.com","NodeID":"b","TopologyKeys":["zone"],'
        '"Allocatable":null}: field is immutable'
    ]


def test_storage_health_of_a_node_is_validated() -> None:
    good: JsonObject = {"status": "StorageDegraded", "reason": "Slow", "accessMode": "ReadWriteOnce"}
    bad: JsonObject = {"status": "Lost", "reason": "", "message": "m" * 1025, "volumeMode": "Raw"}
    health = [{"name": "d.example.com", "healthConditions": [good, bad]}, {"name": "d.example.com"}]
    assert texts(check_csi_node_status({"status": {"storageHealth": health}}, {})) == [
        'status.storageHealth[0].healthConditions[1].status: Unsupported value: "Lost": supported values: '
        '"StorageDegraded", "StorageUnreachable"',
        "status.storageHealth[0].healthConditions[1].reason: Required value",
        "status.storageHealth[0].healthConditions[1].message: Too long: may not be more than 1024 bytes",
        'status.storageHealth[0].healthConditions[1].volumeMode: Unsupported value: "Raw": supported values: '
        '"Filesystem", "Block"',
        'status.storageHealth[1]: Duplicate value: "d.example.com"',
    ]
    many = [{"name": "d.example.com", "healthConditions": [good] * 17}]
    assert texts(check_csi_node_status({"status": {"storageHealth": many}}, {})) == [
        "status.storageHealth[0].healthConditions: Too many: 17: must have at most 16 items"
    ]


def test_class_and_topology_of_a_storage_capacity_are_immutable() -> None:
    old: JsonObject = {
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"b": "1"}},
        "capacity": "1Gi",
    }
    new: JsonObject = {"storageClassName": "slow", "nodeTopology": {"matchLabels": {"b": "1", "a": "2"}}}
    assert texts(check_storage_capacity({**new, "capacity": "-1"}, old)) == [
        'capacity: Invalid value: "-1": must be greater than or equal to 0',
        'nodeTopology: Invalid value: {"matchLabels":{"a":"2","b":"1"}}: field is immutable',
        'storageClassName: Invalid value: "slow": field is immutable',
    ]


def test_parameters_of_a_volume_attributes_class_are_immutable() -> None:
    old: JsonObject = {"driverName": "d.example.com", "parameters": {"a": "b"}}
    assert texts(check_volume_attributes_class({"driverName": "d.example.com"}, old)) == [
        "parameters: Forbidden: updates to parameters are forbidden.",
        "parameters: Required value: must contain at least one key/value pair",
    ]


def test_endpoint_addresses_must_be_of_the_slices_address_type() -> None:
    assert texts(check_endpoint_slice(slice_of("IPv6"), None)) == [
        'endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address'
    ]
    assert texts(check_endpoint_slice(slice_of(addresses=["169.254.1.1"]), None)) == [
        'endpoints[0].addresses[0]: Invalid value: "169.254.1.1": '
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    ]
    assert check_endpoint_slice(slice_of(addresses=["127.0.0.1"]), None) == []
    assert texts(check_endpoint_slice(slice_of(addresses=[]), None)) == [
        "endpoints[0].addresses: Required value: must contain at least 1 address"
    ]


def test_unchanged_endpoints_are_not_validated_again() -> None:
    old = slice_of(addresses=[])
    assert texts(check_endpoint_slice({**old, "addressType": "IPv6"}, old)) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


def test_invalid_ports_of_an_endpoint_slice_are_rejected() -> None:
    ports = [{"name": "a", "protocol": "TCP"}, {"name": "a", "protocol": "X"}]
    assert texts(check_endpoint_slice({**slice_of(), "ports": ports}, None)) == [
        'ports[1].name: Duplicate value: "a"',
        'ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
    ]
