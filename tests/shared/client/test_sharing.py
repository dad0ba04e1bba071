"""What thousands of equal nodes have in common is kept once."""

from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import NODES, RESOURCE_SLICES
from dra_shared.client.sharing import sharing


def _slice(number: int) -> ResourceSlice:
    attributes = {"uuid": {"string": f"GPU-{number}"}, "driver": {"version": ".".join("111")}}
    device = {
        "name": "gpu-0",
        "attributes": attributes,
        "capacity": {"memory": {"value": "80" + "Gi"}},
    }
    made = {"metadata": {"name": f"slice-{number}"}, "spec": {"driver": "gpu", "devices": [device]}}
    return convert(RESOURCE_SLICES, made)


def test_devices_share_what_is_equal_and_stay_as_they_were() -> None:
    share = sharing(ResourceSlice)
    assert share is not None
    slices = [_slice(number) for number in range(100)]
    for slice_ in slices:
        share(slice_)
    assert slices == [_slice(number) for number in range(100)]
    devices = [slice_.spec.devices[0] for slice_ in slices]
    assert len({id(device.attributes["driver"]) for device in devices}) == 1
    assert len({id(device.capacity["memory"]) for device in devices}) == 1
    assert len({id(device.attributes["uuid"]) for device in devices}) == 100


def test_what_differs_everywhere_is_not_remembered() -> None:
    share = sharing(ResourceSlice)
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
    share = sharing(Node)
    assert share is not None
    nodes = [
        convert(NODES, {"metadata": {"name": f"n-{number}", "labels": {"zone": "-".join("ab")}}})
        for number in range(2)
    ]
    for node in nodes:
        share(node)
    first, second = (node.metadata.labels["zone"] for node in nodes)
    assert first is second


def test_other_kinds_share_nothing() -> None:
    assert sharing(Pod) is None
