"""Checkpoints that no kubelet writes are decoded as in Go."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from dra_node_agent.kubelet.devicemanager.checkpoint import CheckpointError, PodDevicesEntry, parse

from tests.support.cases import each_case

_NO_ENTRIES: list[Any] = []


def _file(data: str, rest: str = '"Checksum": 1') -> bytes:
    return f'{{"Data": {data}, {rest}}}'.encode()


def test_repeated_json_maps_are_merged_and_their_values_replaced() -> None:
    first = '"RegisteredDevices": {"a": ["x", "y"], "b": ["z"]}'
    data, _ = parse(_file(f'{{{first}, "registereddevices": {{"a": ["w"], "c": null}}}}'))
    assert data.registered_devices == {"a": ["w"], "b": ["z"], "c": None}
    # A null empties the map, and later values fill it again.
    data, _ = parse(_file(f'{{{first}, "RegisteredDevices": null}}'))
    assert data.registered_devices is None
    data, _ = parse(_file(f'{{{first}, "RegisteredDevices": null, "RegisteredDevices": {{"c": []}}}}'))
    assert data.registered_devices == {"c": []}


def test_a_repeated_json_object_keeps_fields_that_the_last_occurrence_lacks() -> None:
    again = '"DATA": {"RegisteredDevices": {"b": []}}, "checkſum": 7, "Checksum": null'
    data, checksum = parse(_file('{"RegisteredDevices": {"a": []}}', again))
    assert data.registered_devices == {"a": [], "b": []}
    assert data.pod_device_entries == _NO_ENTRIES
    assert checksum == 7


def _entries(*lists: str) -> Sequence[PodDevicesEntry] | None:
    fields = ", ".join(f'"PodDeviceEntries": {each}' for each in lists)
    data, _ = parse(_file(f"{{{fields}}}"))
    return data.pod_device_entries


@each_case(
    ("lists", "expected"),
    [
        (
            ['[{"PodUID": "u", "DeviceIDs": {"0": ["a"]}}]', '[{"DeviceIDs": {"1": ["b"]}}]'],
            [PodDevicesEntry("u", device_ids={0: ["a"], 1: ["b"]})],
        ),
        (
            ['[{"PodUID": "u"}]', '[{"PodUID": null, "AllocResp": ""}]'],
            [PodDevicesEntry("u", alloc_resp=b"")],
        ),
        (['[{"PodUID": "u"}]', "[null]"], [PodDevicesEntry("u")]),
        (['[{"PodUID": "u"}, {"PodUID": "v"}]', "[{}]"], [PodDevicesEntry("u")]),
        # Elements that a shorter list cut off are still in the slice's array.
        (
            ['[{"PodUID": "u"}, {"PodUID": "v"}]', "[{}]", "[{}, {}]"],
            [PodDevicesEntry("u"), PodDevicesEntry("v")],
        ),
        (['[{"PodUID": "u"}]', "[]", "[{}]"], [PodDevicesEntry()]),
        (['[{"PodUID": "u"}]', "null", "[{}]"], [PodDevicesEntry()]),
        (['[{"PodUID": "u"}]', "null"], None),
    ],
)
def test_a_repeated_json_list_is_decoded_into_the_entries_of_the_first_occurrence(
    lists: list[str], expected: list[PodDevicesEntry] | None
) -> None:
    assert _entries(*lists) == expected


def test_different_spellings_of_a_numa_node_number_are_the_same_key() -> None:
    (entry,) = _entries('[{"DeviceIDs": {"1": ["a"], "+1": ["b"], "01": ["c"], "-1": []}}]') or ()
    assert entry.device_ids == {1: ["c"], -1: []}
    with pytest.raises(CheckpointError, match="cannot unmarshal number --1"):
        _entries('[{"DeviceIDs": {"--1": []}}]')


def test_a_list_in_place_of_an_object_is_an_error() -> None:
    for data in ("[]", '{"RegisteredDevices": []}', '{"PodDeviceEntries": [[]]}', '{"PodDeviceEntries": {}}'):
        with pytest.raises(CheckpointError, match=r"json: cannot unmarshal (array|object)"):
            parse(_file(data))
    with pytest.raises(CheckpointError, match="json: cannot unmarshal array"):
        parse(json.dumps([]).encode())
