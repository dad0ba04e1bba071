"""Consumable capacity: the amount that a request consumes, and the reasons why it does not fit."""

from typing import Any

import pytest
from dra_scheduler.allocator.amounts import amount
from dra_scheduler.allocator.capacity import Shortage, consumption, shortage
from dra_scheduler.allocator.capacityrange import CapacityError
from dra_scheduler.allocator.features import Arithmetic
from dra_shared.api.resource import DeviceCapacity
from msgspec import convert

from tests.support.cases import each_case

G = 10**9


def _capacity(value: str = "10Gi", **policy: Any) -> DeviceCapacity:
    return convert({"value": value, **({"requestPolicy": policy} if policy else {})}, DeviceCapacity)


WRAPPING, WHOLE, FRACTIONS = Arithmetic.WRAPPING, Arithmetic.WHOLE, Arithmetic.FRACTIONS
DRIVER = "gpu.example.com"


def _consume(
    capacity: DeviceCapacity, requested: str | None, arithmetic: Arithmetic = WRAPPING
) -> tuple[int, str]:
    requests = {} if requested is None else {"memory": requested}
    amounts, texts = consumption({"memory": capacity}, requests, arithmetic)
    return amounts["memory"], texts["memory"]


def _fits(
    capacity: DeviceCapacity, requested: str, arithmetic: Arithmetic = WRAPPING, name: str = "memory"
) -> bool:
    return shortage({name: capacity}, {"memory": requested}, {}, {}, arithmetic) is None


@each_case(
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
        # Rounding to a step always returns the binary family.
        (_capacity("10M", default="1M", validRange={"min": "1M", "step": "1M"}), "1500k", "2000000"),
        (_capacity("10k", default="1k", validRange={"min": "24", "step": "1000"}), "25", "1Ki"),
        (_capacity("10Gi", default="1Gi", validValues=["1Gi", "4Gi", "8Gi"]), "2Gi", "4Gi"),
        (_capacity("10Gi", default="1Gi", validValues=["1Gi", "4Gi", "8Gi"]), "9Gi", "9Gi"),
    ],
)
def test_consumed_amount_follows_the_request_policy(
    capacity: DeviceCapacity, requested: str | None, text: str
) -> None:
    assert _consume(capacity, requested) == (amount(text), text)


def test_a_request_beyond_64_bits_is_rounded_up_from_below_the_minimum() -> None:
    capacity = _capacity("20", default="4", validRange={"min": "1", "step": "3", "max": "10"})

    assert _consume(capacity, "12E") == (4 * G, "4")
    assert _fits(capacity, "12E")


def test_rounding_up_to_a_step_overflows_64_bits() -> None:
    capacity = _capacity("10Gi", validRange={"min": "2", "step": "3", "max": "8"})

    assert _consume(capacity, "9223372036854775807") == (-(2**63) * G, "-9223372036854775808")
    assert _fits(capacity, "9223372036854775807")


@each_case(
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
        # Without a minimum there is no range to round within, and only the valid values count.
        (_capacity("10", validRange={"max": "4"}, validValues=["2", "4"]), {"memory": "3"}, {}, {}, None),
    ],
)
def test_the_reason_for_a_rejected_device_names_the_capacity_that_is_short(
    capacity: DeviceCapacity,
    requests: dict[str, str],
    used: dict[str, int],
    allocating: dict[str, int],
    expected: Shortage | None,
) -> None:
    assert shortage({"memory": capacity}, requests, used, allocating, WRAPPING) == expected


def test_capacities_that_a_request_does_not_mention_are_consumed_by_default() -> None:
    capacities = {"memory": _capacity("10"), "bandwidth": _capacity("1G", default="100M")}

    assert consumption(capacities, {"memory": "2"}, WRAPPING) == (
        {"memory": 2 * G, "bandwidth": 10**8 * G},
        {"memory": "2", "bandwidth": "100M"},
    )


@each_case(
    ("valid_range", "requested", "arithmetic", "text"),
    [
        ({"min": "500m", "step": "500m"}, "1200m", FRACTIONS, "1500m"),
        ({"min": "500m", "step": "500m"}, "1700m", FRACTIONS, "2"),
        ({"min": "500m", "step": "500m"}, "100m", FRACTIONS, "500m"),
        # In whole units both the minimum and the step are rounded up.
        ({"min": "500m", "step": "500m"}, "1200m", WHOLE, "2"),
        # A whole number of steps is written in the notation of the step.
        ({"min": "1M", "step": "1M"}, "1500k", WHOLE, "2M"),
        ({"min": "1Gi", "step": "1Gi"}, "1500Mi", FRACTIONS, "2Gi"),
    ],
)
def test_amounts_are_rounded_up_to_steps_in_each_arithmetic_since_1_37(
    valid_range: dict[str, str], requested: str, arithmetic: Arithmetic, text: str
) -> None:
    capacity = _capacity("10Gi", default=valid_range["min"], validRange=valid_range)

    assert _consume(capacity, requested, arithmetic) == (amount(text), text)


_NO_NUMBER = "capacity request cannot be represented in the device's range arithmetic"


@pytest.mark.parametrize(
    ("requested", "arithmetic", "text"),
    [
        ("9223372036854775808", WHOLE, "request 9223372036854775808 exceeds MaxInt64"),
        (
            "9223372036854775807",
            WHOLE,
            "rounding request 9223372036854775807 up to the next step passes MaxInt64",
        ),
        ("1u", FRACTIONS, None),
        ("2000001u", FRACTIONS, "request 2000001u is not a representable milli value"),
        (
            "9223372036854775",
            FRACTIONS,
            "rounding request 9223372036854775 up to the next step passes the milli-value range",
        ),
    ],
)
def test_a_request_beyond_64_bits_fails_the_allocation_since_1_37(
    requested: str, arithmetic: Arithmetic, text: str | None
) -> None:
    capacity = _capacity("20", default="4", validRange={"min": "1", "step": "5"})
    if text is None:
        assert _consume(capacity, requested, arithmetic) == (G, "1")
        return
    with pytest.raises(CapacityError, match=_NO_NUMBER) as caught:
        _fits(capacity, requested, arithmetic)
    assert str(caught.value) == f'capacity "memory": {_NO_NUMBER}: {text}'


def test_negative_amounts_fail_the_allocation_since_1_37() -> None:
    with pytest.raises(CapacityError, match=r'^capacity "memory": capacity value is negative$'):
        _fits(_capacity("10"), "-1", WHOLE)
    assert _fits(_capacity("10"), "-1", WRAPPING)


@pytest.mark.parametrize("arithmetic", [WRAPPING, WHOLE, FRACTIONS])
def test_capacity_names_with_and_without_domain_are_different_names(arithmetic: Arithmetic) -> None:
    full = f"{DRIVER}/memory"
    for published, requested in ((full, "memory"), ("memory", full)):
        capacities = {published: _capacity("10")}
        requests = {requested: "4"}
        found = shortage(capacities, requests, {}, {}, arithmetic)
        assert found == Shortage("undefined", requested)
        # The whole capacity is consumed if it is not requested.
        assert consumption(capacities, requests, arithmetic) == ({published: 10 * G}, {published: "10"})
        used = {requested: 8 * G}
        assert shortage(capacities, {published: "4"}, used, {}, arithmetic) is None
