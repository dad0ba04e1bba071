"""Validate a ResourceClaim's spec: requests, constraints and configuration."""

from __future__ import annotations

import functools

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_38, Version

from dra_apiserver.common import names
from dra_apiserver.common.validspecs import KnownGood
from dra_apiserver.errors import FieldError, Verbatim, invalid, missing_field, not_supported
from dra_apiserver.kinds.resource.declared import limit, values
from dra_apiserver.kinds.resource.derived import DerivedAttributes
from dra_apiserver.kinds.resource.lists import Lists
from dra_apiserver.kinds.resource.opaque import check_configuration
from dra_apiserver.kinds.resource.selectors import check_selectors
from dra_apiserver.kinds.resource.taints import check_toleration

_REQUESTS = limit("DeviceClaim", "requests")
_CONSTRAINTS = limit("DeviceClaim", "constraints")
_CONFIGS = limit("DeviceClaim", "config")
_REFERENCES = limit("DeviceConstraint", "requests")
_ALTERNATIVES = limit("DeviceRequest", "firstAvailable")
_MODES = values("ExactDeviceRequest", "allocationMode")
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

_good = KnownGood()


class RequestNames:
    """The names by which a claim's requests and their alternatives can be referenced."""

    def __init__(self, devices: JsonObject, kubernetes: Version) -> None:
        self._lists = Lists(kubernetes)
        self._names = {
            request.get("name", ""): {entry.get("name", "") for entry in request.get("firstAvailable") or ()}
            for request in devices.get("requests") or ()
        }

    def __contains__(self, name: str) -> bool:
        request, slash, alternative = name.partition("/")
        if request not in self._names:
            return False
        return not slash or alternative in self._names[request]

    def check(self, name: str, path: str) -> list[FieldError]:
        """Validate a reference to a request, or to one of its alternatives."""
        parts = name.split("/")
        if len(parts) > 2:
            return [invalid(path, name, _UNKNOWN_REQUEST)]
        errors = [error for part in parts for error in names.label(part, path)]
        if name not in self:
            errors.append(invalid(path, name, _UNKNOWN_REQUEST))
        return errors

    def check_references(self, references: list[str] | None, path: str) -> list[FieldError]:
        """Validate the references of a constraint or configuration, each once."""
        return self._lists.check_set(references, _REFERENCES, self.check, lambda name: name, path)


def check_claim_spec(
    spec: JsonObject, path: str, gates: FeatureGates, *, stored: bool = False
) -> list[FieldError]:
    """Validate the spec of a claim, in a ResourceClaim or a template.

    Capacity names of a ``stored`` spec are not validated, because older versions accepted any name.
    """
    errors = _good.check(spec, lambda: _check_spec(spec, path, gates), under=gates)
    return errors if stored or gates.version < V1_38 else errors + _check_capacities(spec, path, gates)


def _check_capacities(spec: JsonObject, path: str, gates: FeatureGates) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        at = f"{path}.devices.requests[{index}]"
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
        parts = [(exactly, f"{at}.exactly")] if exactly is not None and not alternatives else []
        if exactly is None:
            parts += [(part, f"{at}.firstAvailable[{number}]") for number, part in enumerate(alternatives)]
        for part, where in parts:
            requested = (part.get("capacity") or {}).get("requests")
            errors += check_capacity_names(requested, f"{where}.capacity.requests", gates.version)
    return errors


def check_capacity_names(amounts: JsonObject | None, path: str, kubernetes: Version) -> list[FieldError]:
    """Validate the names of requested or consumed capacities. The amounts are validated by declared rules."""
    check = functools.partial(names.qualified_name, kubernetes=kubernetes)
    return Lists(kubernetes).check_map(amounts or {}, None, names.KEY_LENGTH, check, lambda *_: [], path)


def _check_spec(spec: JsonObject, path: str, gates: FeatureGates) -> list[FieldError]:
    devices = spec.get("devices") or {}
    path = f"{path}.devices"
    known = RequestNames(devices, gates.version)
    lists = Lists(gates.version)
    derived = DerivedAttributes(devices.get("constraints") or (), gates)
    errors = lists.check_set(
        devices.get("requests"),
        _REQUESTS,
        lambda request, at: _check_request(request, at, gates, derived),
        lambda request: request.get("name", ""),
        f"{path}.requests",
        "name",
    )
    errors += lists.check_list(
        devices.get("constraints"),
        _CONSTRAINTS,
        lambda constraint, at: _check_constraint(constraint, at, known, gates),
        f"{path}.constraints",
    )

    def check_config(config: JsonObject, at: str) -> list[FieldError]:
        found = known.check_references(config.get("requests"), f"{at}.requests")
        return found + check_configuration(config, at, gates.version)

    errors += lists.check_list(devices.get("config"), _CONFIGS, check_config, f"{path}.config")
    return errors + derived.check_total(path)


def _check_request(
    request: JsonObject, path: str, gates: FeatureGates, derived: DerivedAttributes
) -> list[FieldError]:
    errors = names.label(request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    text = "exactly one of `exactly` or `firstAvailable` is required"
    both = exactly is not None and bool(alternatives)
    if exactly is None and not alternatives:
        return [*errors, missing_field(path, text)]
    if not both or _both_members_are_checked(gates.version):
        name = request.get("name", "")
        errors += _check_alternatives(alternatives, f"{path}.firstAvailable", gates, derived, name)
        if exactly is not None:
            errors += _check_exact(exactly, f"{path}.exactly", gates, derived, name)
    if both:
        errors.append(invalid(path, Verbatim("null"), f"{text}, but multiple fields are set"))
    return errors


def _both_members_are_checked(kubernetes: Version) -> bool:
    """True if the fields of a request with both `exactly` and `firstAvailable` are validated as well."""
    return kubernetes < V1_35


def _check_alternatives(
    alternatives: list[JsonObject], path: str, gates: FeatureGates, derived: DerivedAttributes, parent: str
) -> list[FieldError]:
    return Lists(gates.version).check_set(
        alternatives,
        _ALTERNATIVES,
        lambda entry, at: [
            *names.label(entry.get("name", ""), f"{at}.name"),
            *_check_exact(entry, at, gates, derived, f"{parent}/{entry.get('name', '')}"),
        ],
        lambda entry: entry.get("name", ""),
        path,
        "name",
    )


def _check_exact(
    request: JsonObject, path: str, gates: FeatureGates, derived: DerivedAttributes, name: str
) -> list[FieldError]:
    errors = names.class_name(request.get("deviceClassName", ""), f"{path}.deviceClassName")
    errors += check_selectors(request.get("selectors"), f"{path}.selectors", gates)
    errors += derived.check(request.get("derivedAttributes"), f"{path}.derivedAttributes", name)
    mode, count = request.get("allocationMode", ""), request.get("count") or 0
    if mode == "All":
        if count != 0:
            text = "must not be specified when allocationMode is 'All'"
            errors.append(invalid(f"{path}.count", count, text))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    return errors + Lists(gates.version).check_list(
        request.get("tolerations"),
        None,
        lambda toleration, at: check_toleration(toleration, at, gates.version),
        f"{path}.tolerations",
    )


def _check_constraint(
    constraint: JsonObject, path: str, known: RequestNames, gates: FeatureGates
) -> list[FieldError]:
    errors = known.check_references(constraint.get("requests"), f"{path}.requests")
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        errors += names.fully_qualified_name(match, f"{path}.matchAttribute", gates.version)
    elif distinct is not None:
        errors += names.fully_qualified_name(distinct, f"{path}.distinctAttribute", gates.version)
    elif gates.enabled("DRAConsumableCapacity"):
        text = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        errors.append(missing_field(path, text))
    else:
        errors.append(missing_field(f"{path}.matchAttribute"))
    return errors
