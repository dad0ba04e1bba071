"""Validation of an ingress's status (upstream's `ValidateIngressStatusUpdate`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common import names
from dra_apiserver.common.addresses import check_legacy_address, parse_address
from dra_apiserver.errors import FieldError, invalid


def check_ingress_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the load balancer status of an Ingress."""

    def points(ingress: JsonObject) -> list[JsonObject]:
        return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []

    known = {point.get("ip", "") for point in points(old)}
    errors: list[FieldError] = []
    for index, point in enumerate(points(obj)):
        at = f"status.loadBalancer.ingress[{index}]"
        if point.get("ip"):
            errors += check_legacy_address(point["ip"], f"{at}.ip", known)
        host = point.get("hostname", "")
        if host:
            errors += names.subdomain(host, f"{at}.hostname")
            if parse_address(host) is not None:
                errors.append(invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return errors
