"""Networks in CIDR notation.

Mirrors k8s.io/apiserver/pkg/cel/library/cidr.go.
"""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from dra_shared.cel.declarations import (
    CallCost,
    Estimate,
    Estimator,
    Function,
    Node,
    estimate_nominal,
    function,
    nominal,
    overload,
)
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import STRING, estimate_scan, scan, size, size_range
from dra_shared.cel.network import AddressError, Cidr, Ip
from dra_shared.cel.ranges import ONE, Range, add, factor
from dra_shared.cel.values import NO_OVERLOAD
from dra_shared.version import V1_38, Version

#: The bytes of an address.
_ADDRESS: Final[Range] = (4, 16)


def cidr(text: str) -> Cidr:
    try:
        return Cidr.parse(text)
    except AddressError as error:
        raise EvaluationError(f"network address parse error during conversion from string: {error}") from None


def is_cidr(text: str) -> bool:
    try:
        Cidr.parse(text)
    except AddressError:
        return False
    return True


def _contains_ip_text(network: Cidr, text: str) -> bool:
    # An address that cannot be parsed appears as a missing overload, because upstream reads the type of the
    # error value.
    try:
        return network.contains_ip(Ip.parse(text))
    except AddressError:
        raise EvaluationError(NO_OVERLOAD) from None


def _containment_cost(*, parsed: bool = False, masking: bool = False) -> CallCost:
    def cost(args: Sequence[Any], result: Any) -> int:
        network = size(args[0])
        total = math.ceil(float(network + network) * STRING)
        if masking:
            total += math.ceil(float(network) * STRING) + 1
        if parsed:
            total += math.ceil(float(size(args[1])) * STRING)
        return total

    return cost


def _estimate_containing(*, parsed: bool = False, masking: bool = False) -> Estimator:
    def estimate(target: Node | None, args: list[Node]) -> Estimate:
        cost = factor(add(_ADDRESS, _ADDRESS), STRING)
        if masking:
            cost = add(add(cost, factor(_ADDRESS, STRING)), ONE)
        if parsed:
            cost = add(cost, factor(size_range(args[0]), STRING))
        return Estimate(cost)

    return estimate


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("string", overload("cidr_to_string(CIDR) string", str)),
    function(
        "ip",
        overload(
            ".cidr_ip(CIDR) IP",
            lambda network: Ip(network.address),
            cost=nominal,
            estimate=estimate_nominal,
        ),
    ),
    function("cidr", overload("string_to_cidr(string) CIDR", cidr), cost=scan(), estimate=estimate_scan()),
    function(
        "containsIP",
        overload(
            ".cidr_contains_ip_string(CIDR, string) bool",
            _contains_ip_text,
            cost=_containment_cost(parsed=True),
            estimate=_estimate_containing(parsed=True),
        ),
        overload(".cidr_contains_ip_ip(CIDR, IP) bool", Cidr.contains_ip),
        cost=_containment_cost(),
        estimate=_estimate_containing(),
    ),
    function(
        "containsCIDR",
        overload(
            ".cidr_contains_cidr_string(CIDR, string) bool",
            lambda network, text: network.contains_cidr(cidr(text)),
            cost=_containment_cost(parsed=True, masking=True),
            estimate=_estimate_containing(parsed=True, masking=True),
        ),
        overload(".cidr_contains_cidr(CIDR, CIDR) bool", Cidr.contains_cidr),
        cost=_containment_cost(masking=True),
        estimate=_estimate_containing(masking=True),
    ),
    function("prefixLength", overload(".cidr_prefix_length(CIDR) int", attrgetter("prefix"))),
    function("masked", overload(".cidr_masked(CIDR) CIDR", Cidr.mask)),
    function("isCIDR", overload("is_cidr(string) bool", is_cidr), cost=scan(), estimate=estimate_scan()),
)


def extensions_of(kubernetes: Version) -> tuple[Function, ...]:
    """Return the functions that only some versions have: ``isMask`` since 1.38, true if no host bits are set."""
    if kubernetes < V1_38:
        return ()
    return (function("isMask", overload(".cidr_is_mask(CIDR) bool", lambda cidr: cidr.mask() == cidr)),)
