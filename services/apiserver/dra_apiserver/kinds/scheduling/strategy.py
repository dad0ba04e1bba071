"""The strategies of PodGroup and Workload (`pkg/registry/scheduling`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.gates import GatedFields, drop_disabled
from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.objectmeta import reset_for_status
from dra_apiserver.errors import FieldError
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.scheduling.declared import (
    CLAIMS,
    PREEMPTION,
    TOPOLOGY,
    check_declared,
    check_group_status,
    complete_group,
    complete_workload,
    is_newer_form,
)
from dra_apiserver.kinds.scheduling.oldworkloads import check_old_workload
from dra_apiserver.kinds.scheduling.templates import check_templates


def _group_fields(at: str) -> tuple[GatedFields, ...]:
    """Return the gated fields of a pod group, or of a template of pod groups, at the path `at`."""
    return (
        GatedFields((TOPOLOGY,), (f"{at}schedulingConstraints",)),
        GatedFields((CLAIMS,), (f"{at}resourceClaims",)),
        *(GatedFields((PREEMPTION,), (f"{at}{field}",))
          for field in ("disruptionMode", "priorityClassName", "priority")),
    )  # fmt: skip


_GROUP = _group_fields("spec.")
_TEMPLATE = _group_fields("")
_STATUS = GatedFields((CLAIMS,), ("status.resourceClaimStatuses",))


class PodGroupStrategy(GenericStrategy):
    """The strategy of pod groups, which are immutable; since 1.37 the size of a gang may change.

    Also used for composite groups.
    """

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Prepare like every kind, and drop disabled fields."""
        super().prepare_for_create(obj, ctx)
        if is_newer_form(ctx.features.version):
            complete_group(obj, None, ctx)
            return
        drop_disabled(_GROUP, obj, None, ctx.features)
        # Upstream sets the default again whenever it reads a stored group.
        obj["spec"].setdefault("disruptionMode", "Pod")

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Prepare like every kind, and drop disabled fields that the old object did not use."""
        super().prepare_for_update(obj, old, ctx)
        if is_newer_form(ctx.features.version):
            complete_group(obj, old, ctx)
        else:
            drop_disabled(_GROUP, obj, old, ctx.features)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the spec."""
        return super().validate_create(obj, ctx) + _check_group(obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the spec."""
        return super().validate_update(obj, old, ctx) + _check_group(obj, old, ctx)


def _check_group(obj: JsonObject, old: JsonObject | None, ctx: Context) -> list[FieldError]:
    if old is None and not is_newer_form(ctx.features.version) and not ctx.features.enabled(PREEMPTION):
        # Validate without the dropped disruption mode, because upstream sets its default again only after
        # validation.
        obj = {
            **obj,
            "spec": {name: value for name, value in obj["spec"].items() if name != "disruptionMode"},
        }
    return check_declared(obj, old, ctx)


class PodGroupStatusStrategy(GenericStrategy):
    """The strategy of pod groups' status."""

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Keep everything but the status. Claims are dropped if the group cannot have any."""
        super().prepare_for_update(obj, old, ctx)
        reset_for_status(obj["metadata"], old["metadata"])
        if not (old.get("spec") or {}).get("resourceClaims"):
            drop_disabled((_STATUS,), obj, None, ctx.features)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the status."""
        return super().validate_update(obj, old, ctx) + check_group_status(obj, old, ctx)


class SchedulingWorkloadStrategy(GenericStrategy):
    """The strategy of workloads, which are immutable."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None:
        """Prepare like every kind, and drop disabled fields."""
        super().prepare_for_create(obj, ctx)
        if is_newer_form(ctx.features.version):
            complete_workload(obj, None, ctx)
        else:
            _drop_from_templates(obj, {}, ctx)

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None:
        """Prepare like every kind, and drop disabled fields that the old template at the same position did
        not use.
        """
        super().prepare_for_update(obj, old, ctx)
        if is_newer_form(ctx.features.version):
            complete_workload(obj, old, ctx)
        else:
            _drop_from_templates(obj, old, ctx)

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the spec."""
        return super().validate_create(obj, ctx) + _check_workload(obj, None, ctx)

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]:
        """Validate metadata, then the spec."""
        return super().validate_update(obj, old, ctx) + _check_workload(obj, old, ctx)


def _check_workload(obj: JsonObject, old: JsonObject | None, ctx: Context) -> list[FieldError]:
    if ctx.version == "v1alpha1":
        return check_old_workload(obj, old)
    errors = check_templates(obj.get("spec") or {}, "spec") if is_newer_form(ctx.features.version) else []
    return errors + check_declared(obj, old, ctx)


def _templates(obj: JsonObject) -> list[JsonObject]:
    return (obj.get("spec") or {}).get("podGroupTemplates") or []


def _drop_from_templates(obj: JsonObject, old: JsonObject, ctx: Context) -> None:
    before = _templates(old)
    for index, template in enumerate(_templates(obj)):
        drop_disabled(_TEMPLATE, template, before[index] if index < len(before) else None, ctx.features)
        template.setdefault("schedulingConstraints", None)
