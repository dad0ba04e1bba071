"""Shrinking a failing case."""

from dra_shared.jsontypes import JsonObject

from tools.compare.shrink import shrink


def test_shrinking_a_case_keeps_only_the_parts_that_make_it_fail() -> None:
    def fails(case: JsonObject) -> bool:
        devices = case.get("devices") or []
        return any(device.get("shared") for device in devices)

    case = {
        "name": "x",
        "devices": [{"name": "a"}, {"name": "b", "shared": True, "taints": [1, 2]}],
        "claims": [{}],
    }

    assert shrink(case, fails) == {"name": "x", "devices": [{"name": "b", "shared": True}]}


def test_a_minimal_case_is_not_shrunk() -> None:
    case = {"a": [1, {"b": 2}]}

    assert shrink(case, lambda smaller: smaller == case) == case


def test_long_lists_and_maps_shrink_in_few_tries() -> None:
    tries = 0

    def fails(case: JsonObject) -> bool:
        nonlocal tries
        tries += 1
        return 700 in case.get("numbers", ()) and "k700" in case.get("keys", {})

    case = {"numbers": list(range(1000)), "keys": {f"k{number}": 1 for number in range(1000)}}

    assert shrink(case, fails) == {"numbers": [700], "keys": {"k700": 1}}
    assert tries < 200
