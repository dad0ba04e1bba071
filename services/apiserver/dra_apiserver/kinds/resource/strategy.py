"""The strategies of the resource.k8s.io kinds (`pkg/registry/resource`)."""

from __future__ import annotations

import functools
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_36, V1_38

from dra_apiserver.common.declarative.rules import ENFORCED, DeclaredRules
from dra_apiserver.common.gates import drop_disabled
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.goshapes import show
from dra_apiserver.common.objectmeta import IMMUTABLE, reset_for_status, validate_annotations, validate_labels
from dra_apiserver.errors import FieldError, forbidden_field, internal_field, invalid, quote
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.resource import claimspec as requests
from dra_apiserver.kinds.resource import deviceclass, poolstatus, taintrule
from dra_apiserver.kinds.resource import slice as resourceslice
from dra_apiserver.kinds.resource.claimstatus import check_status
from dra_apiserver.kinds.resource.declared import with_declared
from dra_apiserver.kinds.resource.gates import (
    CLAIM,
    CLAIM_STATUS,
    CLAIM_TEMPLATE,
    CLASS,
    POOL_STATUS_REQUEST,
    SLICE,
)
from dra_apiserver.kinds.resource.goshapes import claim_spec, claim_template_spec
from dra_apiserver.kinds.resource.statusauthorization import check_binding, check_drivers
from dra_apiserver.schema import same

_CLAIM_SPEC = "io.k8s.api.resource.v1.ResourceClaimSpec"
_TEMPLATE_SPEC = "io.k8s.api.resource.v1.ResourceClaimTemplateSpec"
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_ADMIN_TEXT = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"


def _check_admin(path: str, ctx: Context) -> list[FieldError]:
    """Check that the namespace is labelled for admin access. The label's value must be exactly `true`."""
    namespace = ctx.lookup("", "namespaces", "", ctx.namespace)
    if namespace is None:
        text = f"could not retrieve namespace to verify admin access: namespaces {quote(ctx.namespace)} not found"
        return [internal_field(path, text)]
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return [] if labels.get(_ADMIN_LABEL) == "true" else [forbidden_field(path, _ADMIN_TEXT)]


def _check_admin_requests(devices: JsonObject, ctx: Context) -> list[FieldError]:
    """Return at most one error: the first request for admin access that is not allowed."""
    for index, request in enumerate(devices.get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return _check_admin(f"spec.devices.requests[{index}].adminAccess", ctx)
    return []


def _checks_again(ctx: Context) -> bool:
    """True if an update is validated like a new object too (before kubernetes/kubernetes#134444)."""
    return ctx.features.version < V1_35


class ResourceClaimStrategy(GenericStrategy):
    """The strategy of claims. The spec is immutable, and the status only changes through the subresource."""

    gated = CLAIM

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate admin access, then metadata and spec."""
        spec = obj.get("spec") or {}
        errors = _check_admin_requests(spec.get("devices") or {}, ctx)
        errors += super().validate_create(obj, ctx)
        errors += requests.check_claim_spec(spec, "spec", ctx.features)
        return with_declared(errors, obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, and that the spec is unchanged.

        1.34 also validates the spec, once as new and once as stored.
        """
        spec = obj.get("spec") or {}
        again = requests.check_claim_spec(spec, "spec", ctx.features) if _checks_again(ctx) else []
        errors = super().validate_create(obj, ctx) + again + super().validate_update(obj, old, ctx)
        if not same(_CLAIM_SPEC, spec, old.get("spec")):
            errors.append(invalid("spec", show(spec, claim_spec(ctx.features.version)), IMMUTABLE))
        return with_declared(errors + again, obj, old, ctx)


class ResourceClaimStatusStrategy(GenericStrategy):
    """The strategy of claims' status. Spec and metadata are unchanged."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Drop disabled fields and the status of devices that are no longer allocated."""
        super().prepare_for_update(obj, old, ctx)
        reset_for_status(obj["metadata"], old["metadata"])
        drop_disabled(CLAIM_STATUS, obj, old, ctx.features)
        _drop_deallocated_devices(obj, old)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate admin access of new results, then metadata and status."""
        errors: list[FieldError] = []
        new_results, old_results = _results(obj), _results(old)
        # An existing allocation cannot change, so admin access in it was checked before.
        if not any(result.get("adminAccess") for result in old_results):
            for index, result in enumerate(new_results):
                if result.get("adminAccess"):
                    errors += _check_admin(f"status.allocation.devices.results[{index}].adminAccess", ctx)
                    break
        if ctx.features.enabled("DRAResourceClaimGranularStatusAuthorization"):
            status, before = obj.get("status") or {}, old.get("status") or {}
            errors += check_binding(status, before, ctx, "status.allocation")
            # The drivers' status is removed with the allocation, regardless of who deallocates the claim.
            if status.get("allocation") is not None and ctx.features.enabled("DRAResourceClaimDeviceStatus"):
                errors += check_drivers(status, before, ctx, "status.devices")
        errors += super().validate_update(obj, old, ctx)
        errors += check_status(obj, old, ctx.features.version)
        return with_declared(errors, obj, old, ctx)


def _results(claim: JsonObject) -> list[JsonObject]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _identity(device: JsonObject) -> tuple[Any, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _drop_deallocated_devices(obj: JsonObject, old: JsonObject) -> None:
    gone = {_identity(result) for result in _results(old)} - {_identity(result) for result in _results(obj)}
    status = obj.get("status") or {}
    devices = [device for device in status.get("devices") or () if _identity(device) not in gone]
    if devices:
        status["devices"] = devices
    else:
        status.pop("devices", None)


class ResourceClaimTemplateStrategy(GenericStrategy):
    """The strategy of claim templates. The spec is immutable."""

    gated = CLAIM_TEMPLATE

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate admin access, then metadata and spec."""
        spec = obj.get("spec") or {}
        claim = spec.get("spec") or {}
        errors = _check_admin_requests(claim.get("devices") or {}, ctx) + self._check(obj, ctx)
        return with_declared(errors, obj, None, ctx)

    def _check(self, obj: JsonObject, ctx: Context, old: JsonObject | None = None) -> list[FieldError]:
        before = None if old is None else (old.get("spec") or {}).get("spec") or {}
        return super().validate_create(obj, ctx) + self._check_spec(obj.get("spec") or {}, ctx, before)

    def _check_spec(
        self, spec: JsonObject, ctx: Context, before: JsonObject | None = None
    ) -> list[FieldError]:
        errors = _validate_template_metadata(spec.get("metadata") or {}, "spec.metadata")
        claim = spec.get("spec") or {}
        # Names of capacities were not validated before 1.38, so those of an immutable spec may be invalid.
        stored = before is not None and same(_CLAIM_SPEC, claim, before)
        return errors + requests.check_claim_spec(claim, "spec.spec", ctx.features, stored=stored)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate everything as at creation, except for admin access, and that the spec is unchanged.

        1.34 validates the spec twice.
        """
        kubernetes = ctx.features.version
        errors = self._check(obj, ctx, old)
        errors += super().validate_update(obj, old, ctx)
        spec = obj.get("spec") or {}
        if not same(_TEMPLATE_SPEC, spec, old.get("spec")):
            errors.append(invalid("spec", show(spec, claim_template_spec(kubernetes)), IMMUTABLE))
        if _checks_again(ctx):
            errors += self._check_spec(spec, ctx)
        return with_declared(errors, obj, old, ctx)


# ObjectMeta's fields in their order, without labels and annotations.
_NOT_IN_TEMPLATES = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip


def _validate_template_metadata(meta: JsonObject, path: str) -> list[FieldError]:
    errors = validate_annotations(meta.get("annotations") or {}, f"{path}.annotations")
    errors += validate_labels(meta.get("labels") or {}, f"{path}.labels")
    return errors + [
        forbidden_field(f"{path}.{key}", "cannot be set") for key in _NOT_IN_TEMPLATES if meta.get(key)
    ]


class ResourceSliceStrategy(GenericStrategy):
    """The strategy of slices. A taint has the time at which it was added."""

    gated = SLICE

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the time of taints that have none to the current time."""
        super().prepare_for_create(obj, ctx)
        for device in (obj.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", ctx.now)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Set the time of taints that have none to the current time."""
        for device in (obj.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", ctx.now)
        super().prepare_for_update(obj, old, ctx)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        errors = super().validate_create(obj, ctx)
        errors += resourceslice.check_slice(obj.get("spec") or {}, ctx.features)
        return with_declared(errors, obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec. Pool, driver and node are immutable."""
        errors = super().validate_update(obj, old, ctx)
        errors += resourceslice.check_slice(obj.get("spec") or {}, ctx.features, old.get("spec") or {})
        return with_declared(errors, obj, old, ctx)

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]:
        """Since 1.35, warn about a driver's name that is not in lower case."""
        driver = (obj.get("spec") or {}).get("driver", "")
        if driver == driver.lower() or ctx.features.version < V1_35:
            return []
        return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]:
        """Return the warnings for a new slice."""
        return self.warnings_on_create(obj, ctx)


class DeviceClassStrategy(GenericStrategy):
    """The strategy of device classes."""

    gated = CLASS

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        errors = super().validate_create(obj, ctx)
        errors += deviceclass.check_class(obj.get("spec") or {}, ctx.features)
        return with_declared(errors, obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec. 1.34 first validates everything as at creation."""
        errors = super().validate_create(obj, ctx)
        if _checks_again(ctx):
            errors += deviceclass.check_class(obj.get("spec") or {}, ctx.features)
        errors += super().validate_update(obj, old, ctx)
        errors += deviceclass.check_class(obj.get("spec") or {}, ctx.features, old.get("spec") or {})
        return with_declared(errors, obj, old, ctx)


class DeviceTaintRuleStrategy(GenericStrategy):
    """The strategy of taint rules. The taint's time is set at creation, and again when the taint changes."""

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]:
        """Since 1.38, warn about a device selector that is set but empty."""
        selector = (obj.get("spec") or {}).get("deviceSelector")
        if ctx.features.version < V1_38 or selector is None:
            return []
        if any(selector.get(name) is not None for name in ("driver", "pool", "device")):
            return []
        return [
            "spec.deviceSelector: an empty selector matches every device from every driver in the cluster"
        ]

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]:
        """Return the warnings for a new rule. A change of the status has none."""
        return [] if ctx.subresource == "status" else self.warnings_on_create(obj, ctx)

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Set the time of the taint to the current time."""
        super().prepare_for_create(obj, ctx)
        taint = (obj.get("spec") or {}).get("taint")
        if taint is not None:
            taint.setdefault("timeAdded", ctx.now)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Set the time of a taint with another effect, unless the client sets it. Until 1.35 the time is kept."""
        if ctx.subresource == "status":
            super().prepare_for_update(obj, old, ctx)
            reset_for_status(obj["metadata"], old["metadata"])
            return
        taint = (obj.get("spec") or {}).get("taint") or {}
        before = (old.get("spec") or {}).get("taint") or {}
        if taint:
            changed = taint.get("effect") != before.get("effect") and ctx.features.version >= V1_36
            if changed and taint.get("timeAdded") == before.get("timeAdded"):
                taint["timeAdded"] = ctx.now
            taint.setdefault("timeAdded", ctx.now)
        super().prepare_for_update(obj, old, ctx)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec."""
        errors = super().validate_create(obj, ctx)
        errors += taintrule.check_rule(obj.get("spec") or {}, ctx.features)
        return with_declared(errors, obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and spec, or the status."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            errors += taintrule.check_rule_status(obj.get("status") or {}, ctx.features.version)
            return with_declared(errors, obj, old, ctx)
        errors += taintrule.check_rule(obj.get("spec") or {}, ctx.features, old.get("spec") or {})
        return with_declared(errors, obj, old, ctx)


class ResourcePoolStatusRequestStrategy(GenericStrategy):
    """The strategy of requests for pool status. The spec is immutable, and the status can only be written once."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Remove the status. A request without a status is pending."""
        super().prepare_for_create(obj, ctx)
        obj.pop("status", None)
        drop_disabled(POOL_STATUS_REQUEST, obj, None, ctx.features)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep everything but the status if the status is updated."""
        super().prepare_for_update(obj, old, ctx)
        if ctx.subresource == "status":
            reset_for_status(obj["metadata"], old["metadata"])
        drop_disabled(POOL_STATUS_REQUEST, obj, old, ctx.features)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the declared rules."""
        return _merge(super().validate_create(obj, ctx)) + _pool_status_request(ctx.features).validate(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata and the status's own rules, then the declared rules."""
        errors = super().validate_update(obj, old, ctx)
        if ctx.subresource == "status":
            version = ctx.features.version
            errors += poolstatus.check_request_status(obj.get("status"), old.get("status"), version)
        return _merge(errors) + _pool_status_request(ctx.features).validate(obj, old)


def _merge(errors: list[FieldError]) -> list[FieldError]:
    """Remove errors with equal texts. 1.36 already does that for kinds that it validates by declared rules."""
    return list({str(error): error for error in errors}.values())


@functools.lru_cache(maxsize=16)
def _pool_status_request(features: FeatureGates) -> DeclaredRules:
    return DeclaredRules("io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequest", ENFORCED, features)
