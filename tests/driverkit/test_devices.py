"""Any number of devices is split into valid slices."""

import pytest
from dra_driverkit.devices import attribute, capacity, node_pool, pool
from dra_shared.api.resource import Counter, CounterSet, Device, DeviceAttribute, DeviceTaint

_TAINT = DeviceTaint(key="k", effect="NoSchedule")


@pytest.mark.parametrize(
    ("count", "taints", "sizes"),
    [(0, (), []), (128, (), [128]), (300, (), [128, 128, 44]), (65, (_TAINT,), [64, 1])],
)
def test_slices_are_as_few_as_the_api_allows(
    count: int, taints: tuple[DeviceTaint, ...], sizes: list[int]
) -> None:
    devices = [Device(name=f"d-{number}", taints=taints) for number in range(count)]
    slices = node_pool("node-0", devices).pools["node-0"].slices
    assert [len(part.devices) for part in slices] == sizes


def test_counters_are_in_separate_slices_before_the_devices() -> None:
    counters = [CounterSet(name=f"c-{n}", counters={"x": Counter(value="1")}) for n in range(9)]
    slices = pool([Device(name="d")], counters, all_nodes=True).slices
    assert [(len(part.shared_counters), len(part.devices)) for part in slices] == [(8, 0), (1, 0), (0, 1)]


def test_attributes_have_the_field_of_their_type() -> None:
    assert attribute(True) == DeviceAttribute(bool_=True)
    assert attribute(1) == DeviceAttribute(int_=1)
    assert attribute("a") == DeviceAttribute(string="a")
    assert capacity("16Gi").value == "16Gi"
