"""IP addresses.

Mirrors k8s.io/apiserver/pkg/cel/library/ip.go.
"""

from operator import attrgetter
from typing import Final

from dra_shared.cel.declarations import Function, function, overload
from dra_shared.cel.errors import EvaluationError
from dra_shared.cel.library.costs import STRING, estimate_scan, scan
from dra_shared.cel.network import AddressError, Ip


def ip(text: str) -> Ip:
    try:
        return Ip.parse(text)
    except AddressError as error:
        raise EvaluationError(str(error)) from None


def is_ip(text: str) -> bool:
    try:
        Ip.parse(text)
    except AddressError:
        return False
    return True


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("string", overload("ip_to_string(IP) string", str)),
    function("ip", overload("string_to_ip(string) IP", ip), cost=scan(), estimate=estimate_scan()),
    function("family", overload(".ip_family(IP) int", attrgetter("family"))),
    function(
        "ip.isCanonical",
        overload("ip_is_canonical(string) bool", lambda text: str(ip(text)) == text),
        cost=scan(2 * STRING),
        estimate=estimate_scan(2 * STRING),
    ),
    function("isUnspecified", overload(".ip_is_unspecified(IP) bool", attrgetter("is_unspecified"))),
    function("isLoopback", overload(".ip_is_loopback(IP) bool", attrgetter("is_loopback"))),
    function(
        "isLinkLocalMulticast",
        overload(".ip_is_link_local_multicast(IP) bool", attrgetter("is_link_local_multicast")),
    ),
    function(
        "isLinkLocalUnicast",
        overload(".ip_is_link_local_unicast(IP) bool", attrgetter("is_link_local_unicast")),
    ),
    function("isGlobalUnicast", overload(".ip_is_global_unicast(IP) bool", attrgetter("is_global_unicast"))),
    function("isIP", overload("is_ip(string) bool", is_ip), cost=scan(), estimate=estimate_scan()),
)
