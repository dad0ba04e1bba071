"""Test that equal parts of thousands of nodes are stored once."""

from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import NODES, RESOURCE_SLICES
from dra_shared.client.sharing import WithoutDetails, create_sharing


def _slice(number: int) -> ResourceSlice:
    attributes = {"uuid": {"string": f"GPU-{number}"}, "driver": {"version": ".".join("111")}}
    device = {
        "name": "gpu-0",
        "attributes": attributes,
        "capacity": {"memory": {"value": "80" + "Gi"}},
    }
    made = {"metadata": {"name": f"slice-{number}"}, "spec": {"driver": "gpu", "devices": [device]}}
    return convert(RESOURCE_SLICES, made)


def test_equal_parts_of_devices_are_shared_without_changing_them() -> None:
    share = create_sharing(ResourceSlice)
    assert share is not None
    slices = [_slice(number) for number in range(100)]
    for slice_ in slices:
        share(slice_)
    assert slices == [_slice(number) for number in range(100)]
    devices = [slice_.spec.devices[0] for slice_ in slices]
    assert len({id(device.attributes["driver"]) for device in devices}) == 1
    assert len({id(device.capacity["memory"]) for device in devices}) == 1
    assert len({id(device.attributes["uuid"]) for device in devices}) == 100


def test_values_that_differ_in_every_object_are_not_cached() -> None:
    share = create_sharing(ResourceSlice)
    assert share is not None
    for number in range(100):
        share(_slice(number))
    known, late = _slice(0), _slice(99)
    share(known), share(late)
    again, later = _slice(0), _slice(99)
    share(again), share(later)
    assert known.spec.devices[0].attributes["uuid"] is again.spec.devices[0].attributes["uuid"]
    assert late.spec.devices[0].attributes["uuid"] is not later.spec.devices[0].attributes["uuid"]


def test_nodes_share_the_values_of_labels() -> None:
    share = create_sharing(Node)
    assert share is not None
    nodes = [
        convert(NODES, {"metadata": {"name": f"n-{number}", "labels": {"zone": "-".join("ab")}}})
        for number in range(2)
    ]
    for node in nodes:
        share(node)
    first, second = (node.metadata.labels["zone"] for node in nodes)
    assert first is second


def test_parts_of_kinds_other_than_nodes_and_slices_are_not_shared() -> None:
    assert create_sharing(Pod) is None


def _node(number: int) -> Node:
    name = "-".join(("n", str(number)))
    condition = {"type": "Ready", "status": "True", "message": " ".join(("kubelet", "is", "ready"))}
    status = {
        "capacity": {"cpu": str(60 + 4)},
        "allocatable": {"cpu": str(60 + 4)},
        "conditions": [condition],
        "addresses": [
            {"type": "InternalIP", "address": ".".join("1111")},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {"osImage": " ".join("ab"), "machineID": name},
    }
    return convert(NODES, {"metadata": {"name": name, "labels": {"zone": "-".join("ab")}}, "status": status})


def test_equal_parts_of_node_statuses_are_shared_without_changing_them() -> None:
    share = create_sharing(Node)
    assert share is not None
    nodes = [_node(number) for number in range(3)]
    for node in nodes:
        share(node)
    assert nodes == [_node(number) for number in range(3)]
    parts = [
        (
            id(n.status.capacity),
            id(n.status.conditions),
            id(n.status.addresses[0]),
            id(n.status.node_info.os_image),
        )
        for n in nodes
    ]
    assert len(set(parts)) == 1
    assert nodes[0].status.allocatable is nodes[0].status.capacity


def test_slices_of_equal_nodes_have_the_same_devices_without_details() -> None:
    trim = WithoutDetails()
    first, second = _slice(1), _slice(2)
    trim(first)
    trim(second)
    (device,) = first.spec.devices
    assert (device.name, device.attributes, device.capacity) == ("gpu-0", {}, {})
    assert first.spec.devices is second.spec.devices


def test_a_tainted_device_keeps_its_taints_without_details() -> None:
    trim = WithoutDetails()
    taint = {"key": "k", "effect": "NoExecute"}
    spec = {"driver": "gpu", "devices": [{"name": "gpu-0", "taints": [taint]}]}
    tainted = convert(RESOURCE_SLICES, {"metadata": {"name": "t"}, "spec": spec})
    trim(tainted)
    assert [one.key for one in tainted.spec.devices[0].taints] == ["k"]
