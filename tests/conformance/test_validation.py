"""Every table of upstream's validation and strategy tests, with our validators and as a request of a client."""

import copy
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dra_apiserver.common.goshapes import show
from dra_apiserver.common.objectmeta import IMMUTABLE, validate_metadata, validate_metadata_update
from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.resource import claimspec as requests
from dra_apiserver.kinds.resource import claimstatus, deviceclass, poolstatus, taintrule
from dra_apiserver.kinds.resource import slice as resourceslice
from dra_apiserver.kinds.resource.capacity import check_shared_capacity
from dra_apiserver.kinds.resource.goshapes import claim_spec, claim_template_spec
from dra_apiserver.kinds.resource.strategy import ResourceSliceStrategy
from dra_recordings.validate import NOW, answer
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain_name
from dra_shared.version import V1_36

from tests.support.cases import check_all, each_case
from tests.support.reference import load_vectors

KINDS = ("deviceclass", "devicetaintrule", "resourceclaim", "resourceclaimtemplate",
         "resourcepoolstatusrequest", "resourceslice")  # fmt: skip
HANDWRITTEN = [f"validation_{kind}" for kind in KINDS]
DECLARATIVE = [
    f"validation_declarative_{kind}"
    for kind in KINDS
    if kind not in ("devicetaintrule", "resourceclaimtemplate")
]
STRATEGY = [f"validation_strategy_{kind}" for kind in KINDS if kind != "resourcepoolstatusrequest"]

_RAW = "its parameters are text that is no JSON, or long by white space: our decoder keeps values, not text"
_ZERO_TIME = "a zero deletionTimestamp cannot be said in JSON"
# (table, case, operation) -> the reason why it cannot pass.
UNREACHABLE = {
    ("validation_deviceclass", "configuration", "create"): _RAW,
    ("validation_deviceclass", "invalid-config-too-large", "update"): _RAW,
    ("validation_resourceclaim", "configuration", "create"): _RAW,
    ("validation_resourceclaim", "configuration", "statusUpdate"): _RAW,
    ("validation_resourceclaim", "invalid-data-device-status", "statusUpdate"): _RAW,
    ("validation_resourceclaim", "invalid-data-device-status-limits", "statusUpdate"): _RAW,
    ("validation_resourceclaim", "invalid-data-device-status-disabled-feature-gate", "statusUpdate"): _RAW,
    ("validation_resourceclaim", "invalid-data-device-status-limits-feature-gate", "statusUpdate"): _RAW,
    ("validation_resourceclaim", "invalid-reserved-deleted", "statusUpdate"): _ZERO_TIME,
}
# The requests in which the difference does not matter: disabled fields are dropped, or the field is not read.
_REACHABLE_BY_REQUEST = frozenset(
    {
        "invalid-data-device-status-disabled-feature-gate",
        "invalid-data-device-status-limits-feature-gate",
        "invalid-reserved-deleted",
    }
)
# Namespaces that exist if a case does not name any.
_NAMESPACES = [
    {"metadata": {"name": name, "labels": {"resource.kubernetes.io/admin-access": "true"}}}
    for name in ("ns", "default", "kube-system")
]
Error = tuple[str, str, str]


def _errors(recorded: list[JsonObject] | None) -> list[Error]:
    return [(error["type"], error["field"], error["body"]) for error in recorded or ()]


def _same(ours: list[Error], theirs: list[Error]) -> bool:
    # Go walks the attributes and capacities of a device in any order.
    if any("attributes[" in error[1] or "capacity[" in error[1] for error in theirs):
        return Counter(ours) == Counter(theirs)
    return ours == theirs


def _cases(table: str, requests_only: bool) -> Iterator[tuple[str, JsonObject]]:
    for case in load_vectors(f"{table}.json.gz"):
        if requests_only and "server" not in case:
            continue
        if (table, case["name"], case["operation"]) in UNREACHABLE and not (
            requests_only and case["name"] in _REACHABLE_BY_REQUEST
        ):
            continue
        yield f"{case['test']}/{case['name']}/{case['operation']}", case


def _validate(case: JsonObject) -> list[FieldError]:
    """Return the errors of our validators for the object."""
    obj, old, operation, kind = case["object"], case.get("oldObject") or {}, case["operation"], case["kind"]
    gates = FeatureGates(V1_36, **case["featureGates"])
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    meta = obj["metadata"]
    namespaced = kind in ("ResourceClaim", "ResourceClaimTemplate")
    created = validate_metadata(meta, namespaced, dns_subdomain_name)
    changed = validate_metadata_update(meta, old["metadata"]) if old else []
    create = operation == "create"
    if kind == "ResourceClaim":
        if create:
            return created + requests.check_claim_spec(spec, "spec", gates)
        if operation == "statusUpdate":
            return changed + claimstatus.check_status(obj, old, V1_36)
        immutable = [] if spec == old_spec else [invalid("spec", show(spec, claim_spec(V1_36)), IMMUTABLE)]
        return created + changed + immutable
    if kind == "ResourceClaimTemplate":
        if create:
            return created + requests.check_claim_spec(spec.get("spec") or {}, "spec.spec", gates)
        immutable = (
            [] if spec == old_spec else [invalid("spec", show(spec, claim_template_spec(V1_36)), IMMUTABLE)]
        )
        return changed + immutable
    if kind == "ResourceSlice":
        before = None if create else old_spec
        return (created if create else changed) + resourceslice.check_slice(spec, gates, before)
    if kind == "DeviceClass":
        before = None if create else old_spec
        return created + changed + deviceclass.check_class(spec, gates, before)
    if kind == "DeviceTaintRule":
        return (created if create else changed) + taintrule.check_rule(
            spec, gates, None if create else old_spec
        )
    assert kind == "ResourcePoolStatusRequest"
    if create:
        return created
    status, old_status = obj.get("status"), old.get("status")
    return changed + (
        poolstatus.check_request_status(status, old_status, V1_36) if operation == "statusUpdate" else []
    )


@each_case("table", HANDWRITTEN)
def test_validators_agree_with_upstream(table: str) -> None:
    check_all(_cases(table, requests_only=False), _check_validators)


def test_cases_listed_as_unreachable_still_fail() -> None:
    """If a listed case passes now, this test fails, and the case must be removed from the list."""
    for table, name, operation in UNREACHABLE:
        (case,) = (
            case
            for case in load_vectors(f"{table}.json.gz")
            if (case["name"], case["operation"]) == (name, operation)
        )
        with pytest.raises(AssertionError):
            _check_validators(case)


def _check_validators(case: JsonObject) -> None:
    ours = [(str(error.type), error.field, error.body()) for error in _validate(copy.deepcopy(case))]
    assert _same(ours, _errors(case["actualErrors"])), (ours, case["actualErrors"])


def test_capacity_validation_agrees_with_upstream() -> None:
    cases = load_vectors("validation_devicecapacity.json.gz")
    check_all(((case["name"], case) for case in cases), _check_capacity)


def _check_capacity(case: JsonObject) -> None:
    ours = [
        (str(error.type), error.field, error.body())
        for error in check_shared_capacity(case["capacity"], case["path"], FeatureGates(V1_36))
    ]
    assert ours == _errors(case["actualErrors"])


def _drop_empty(value: Any) -> Any:
    """Drop empty values: a Go server omits some of them, which means nothing."""
    if isinstance(value, dict):
        inner = ((key, _drop_empty(item)) for key, item in value.items())
        return {key: item for key, item in inner if item is not None and item != {} and item != []}
    return [_drop_empty(item) for item in value] if isinstance(value, list) else value


# The server sets these fields when it writes the object. The recorded answer does not have them.
_WRITTEN = ("resourceVersion", "generation")


def _comparable(obj: JsonObject) -> JsonObject:
    pruned: JsonObject = _drop_empty(obj)
    for name in _WRITTEN:
        pruned.setdefault("metadata", {}).pop(name, None)
    return pruned


def _set_times(ours: Any, theirs: Any) -> None:
    """Replace times that the server sets with those of the recording."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if ours.get("timeAdded") == NOW and "timeAdded" in theirs:
            theirs["timeAdded"] = NOW
        for key in ours.keys() & theirs.keys():
            _set_times(ours[key], theirs[key])
    elif isinstance(ours, list) and isinstance(theirs, list):
        for left, right in zip(ours, theirs, strict=False):
            _set_times(left, right)


@each_case("table", [*HANDWRITTEN, *DECLARATIVE, *STRATEGY])
def test_requests_are_validated_as_upstream(table: str) -> None:
    check_all(_cases(table, requests_only=True), _check_request)


def _check_request(case: JsonObject) -> None:
    recorded = case["server"]
    ours = answer({"namespaces": _NAMESPACES, **case})["server"]
    assert ours["allowed"] == recorded["allowed"], ours
    assert _same(_errors(ours["errors"]), _errors(recorded["errors"])), (ours["errors"], recorded["errors"])
    assert ours.get("warnings") == recorded.get("warnings")
    if recorded.get("object"):
        theirs = _comparable(recorded["object"])
        _set_times(ours["object"], theirs)
        assert _comparable(ours["object"]) == theirs


def test_warnings_about_objects_agree_with_upstream() -> None:
    cases = load_vectors("validation_strategy_resourceslice.json.gz")
    named = ((f"{case['operation']}/{case['name']}", case) for case in cases if "expectWarnings" in case)
    check_all(named, _check_warnings)


def _check_warnings(case: JsonObject) -> None:
    obj, ctx = case["object"], cast(Context, SimpleNamespace(features=FeatureGates(V1_36)))
    strategy = ResourceSliceStrategy()
    if case["operation"] == "warningsOnCreate":
        warnings = strategy.warnings_on_create(obj, ctx)
    else:
        warnings = strategy.warnings_on_update(obj, case.get("oldObject") or obj, ctx)
    assert warnings == (case["expectWarnings"] or [])
