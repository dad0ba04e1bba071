"""Consumable capacity: how much of it a request takes, and what keeps it from getting it."""

from typing import Any

import pytest
from dra_scheduler.allocator.amounts import amount
from dra_scheduler.allocator.capacity import Shortage, consumed_amount, consumption, shortage
from dra_shared.api.resource import DeviceCapacity
from msgspec import convert

G = 10**9


def _capacity(value: str = "10Gi", **policy: Any) -> DeviceCapacity:
    return convert({"value": value, **({"requestPolicy": policy} if policy else {})}, DeviceCapacity)


@pytest.mark.parametrize(
    ("capacity", "requested", "text"),
    [
        (_capacity("10Gi"), None, "10Gi"),
        (_capacity("10240Mi"), None, "10Gi"),
        (_capacity("10Gi"), "1024Mi", "1Gi"),
        (_capacity("10Gi", default="2Gi"), None, "2Gi"),
        (_capacity("10Gi", default="2Gi"), "3Gi", "3Gi"),
        (_capacity("10Gi", default="2Gi", validRange={"min": "2Gi"}), "1Gi", "2Gi"),
        (_capacity("10Gi", default="2Gi", validRange={"min": "2Gi"}), "2500Mi", "2500Mi"),
        (_capacity("10Gi", default="2Gi", validRange={"min": "2Gi", "step": "2Gi"}), "5Gi", "6Gi"),
        (_capacity("10Gi", default="2Gi", validRange={"min": "2Gi", "step": "2Gi"}), "6Gi", "6Gi"),
        # Stepping always answers in the binary family.
        (_capacity("10M", default="1M", validRange={"min": "1M", "step": "1M"}), "1500k", "2000000"),
        (_capacity("10k", default="1k", validRange={"min": "24", "step": "1000"}), "25", "1Ki"),
        (_capacity("10Gi", default="1Gi", validValues=["1Gi", "4Gi", "8Gi"]), "2Gi", "4Gi"),
        (_capacity("10Gi", default="1Gi", validValues=["1Gi", "4Gi", "8Gi"]), "9Gi", "9Gi"),
    ],
)
def test_what_a_request_takes(capacity: DeviceCapacity, requested: str | None, text: str) -> None:
    assert consumed_amount(capacity, requested)[:2] == (amount(text), text)


def test_what_has_no_64_bits_is_rounded_up_from_below_the_minimum() -> None:
    capacity = _capacity("20", default="4", validRange={"min": "1", "step": "3", "max": "10"})

    assert consumed_amount(capacity, "12E") == (4 * G, "4", True)


def test_steps_are_taken_in_64_bits() -> None:
    capacity = _capacity("10Gi", validRange={"min": "2", "step": "3", "max": "8"})

    assert consumed_amount(capacity, "9223372036854775807") == (-(2**63) * G, "-9223372036854775808", True)


@pytest.mark.parametrize(
    ("capacity", "requests", "used", "allocating", "expected"),
    [
        (_capacity("10"), {}, {}, {}, None),
        (_capacity("10"), {"memory": "10"}, {}, {}, None),
        (_capacity("10"), {"memory": "11"}, {}, {}, Shortage("capacity", "memory", 11 * G, 10 * G)),
        (_capacity("10"), {"memory": "4"}, {"memory": 4 * G}, {"memory": 2 * G}, None),
        (
            _capacity("10"),
            {"memory": "5"},
            {"memory": 4 * G},
            {"memory": 2 * G},
            Shortage("capacity", "memory", 5 * G, 4 * G),
        ),
        (_capacity("10"), {"bandwidth": "1"}, {}, {}, Shortage("undefined", "bandwidth")),
        (
            _capacity("10", default="1", validRange={"min": "1", "max": "4"}),
            {"memory": "5"},
            {},
            {},
            Shortage("policy", "memory", 5 * G),
        ),
        (
            _capacity("10", default="1", validValues=["1", "4"]),
            {"memory": "5"},
            {},
            {},
            Shortage("policy", "memory", 5 * G),
        ),
        # The default is allowed whatever the rest of the policy says,
        (_capacity("10", default="3", validRange={"min": "1", "max": "2"}), {}, {}, {}, None),
        (_capacity("10", default="7", validRange={"min": "1", "max": "4"}), {"memory": "7"}, {}, {}, None),
        # but only where it is written the same way, and not reached by rounding to a step.
        (
            _capacity("10", default="7", validRange={"min": "1", "max": "4"}),
            {"memory": "7000m"},
            {},
            {},
            Shortage("policy", "memory", 7 * G),
        ),
        (
            _capacity("10", default="7", validRange={"min": "1", "step": "3", "max": "4"}),
            {"memory": "6"},
            {},
            {},
            Shortage("policy", "memory", 7 * G),
        ),
        # Without a minimum there is no range to round within, and the values count.
        (_capacity("10", validRange={"max": "4"}, validValues=["2", "4"]), {"memory": "3"}, {}, {}, None),
    ],
)
def test_what_is_short(
    capacity: DeviceCapacity,
    requests: dict[str, str],
    used: dict[str, int],
    allocating: dict[str, int],
    expected: Shortage | None,
) -> None:
    assert shortage({"memory": capacity}, requests, used, allocating) == expected


def test_every_capacity_is_consumed_mentioned_or_not() -> None:
    capacities = {"memory": _capacity("10"), "bandwidth": _capacity("1G", default="100M")}

    assert consumption(capacities, {"memory": "2"}) == (
        {"memory": 2 * G, "bandwidth": 10**8 * G},
        {"memory": "2", "bandwidth": "100M"},
    )
