"""Validate ResourcePoolStatusRequests beyond the declared rules (`validation_resourcepoolstatusrequest.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import Version

from dra_apiserver.common.conditions import check_conditions
from dra_apiserver.common.goshapes import show
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kinds.resource.goshapes import pool_status
from dra_apiserver.schema import same


def check_request_status(
    status: JsonObject | None, old: JsonObject | None, kubernetes: Version, path: str = "status"
) -> list[FieldError]:
    """Validate the status, which can only be written once."""
    if old:
        if same("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestStatus", status, old):
            return []
        return [invalid(path, show(status, pool_status(kubernetes)), IMMUTABLE)]
    return check_conditions((status or {}).get("conditions"), f"{path}.conditions", kubernetes)
