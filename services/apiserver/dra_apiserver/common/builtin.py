"""Declare a built-in kind: its names come from the schema data, its behaviour from its package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dra_shared.version import Version

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.quota import QUOTA
from dra_apiserver.kindkit.behaviour import (
    Admission,
    Convert,
    Default,
    Deletion,
    FieldPath,
    Rewind,
    Validation,
    Warn,
    Writes,
)
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.names import named_kind
from dra_apiserver.kindkit.serving import FieldLabelError, Printer
from dra_apiserver.kindkit.strategy import Strategy

_GENERIC: Strategy = GenericStrategy()
_ADMISSION = Admission(quota=QUOTA)
_VALIDATION = Validation()
_WRITES = Writes()
_DELETION = Deletion()
_REWIND = Rewind()
_SPEC: tuple[FieldPath, ...] = (("f:spec",),)
_STATUS: tuple[FieldPath, ...] = (("f:status",),)
STATUS_ALONE: tuple[FieldPath, ...] = (("f:metadata",), ("f:spec",))
"""The fields that a status write does not change if it writes no metadata, either."""


def builtin(
    group: str,
    plural: str,
    *,
    strategy: Strategy = _GENERIC,
    status_strategy: Strategy = _GENERIC,
    subresource_strategies: Mapping[str, Strategy] | None = None,
    default: Default | None = None,
    conversions: Mapping[str, tuple[Convert, Convert]] | None = None,
    printer: Printer | None = None,
    older_printers: Mapping[Version, Printer] | None = None,
    warnings: Mapping[str, Warn] | None = None,
    admission: Admission = _ADMISSION,
    validation: Validation = _VALIDATION,
    writes: Writes = _WRITES,
    deletion: Deletion = _DELETION,
    rewind: Rewind = _REWIND,
    feature_gate: str = "",
    indexed_field: str = "",
    field_label_error: FieldLabelError | None = None,
    selects_by_labels: bool = False,
) -> Kind:
    """Return a kind of the schema data with the given behaviour.

    The default of each argument is the behaviour that most kinds have upstream. All kinds have the quota
    plugin. The ``reset_fields`` of ``writes`` need only name the subresources that differ from the usual: a
    write of the object resets its status, one of its status resets the spec. With ``selects_by_labels``,
    `spec.selector` is a map of labels.
    """
    named = named_kind(group, plural)
    strategies: dict[str, Strategy] = dict.fromkeys(("", "status", *named.subresources), _GENERIC)
    strategies[""] = strategy
    usual: dict[str, Sequence[FieldPath]] = {"": _STATUS, "status": _SPEC} if named.has_status else {}
    if named.has_status:
        strategies["status"] = status_strategy
    fields = replace(named.field_selection, indexed=indexed_field, label_error=field_label_error)
    return replace(
        named,
        strategies=strategies | dict(subresource_strategies or {}),
        default=default,
        conversions=conversions or {},
        printers={} if printer is None else {"": printer},
        older_printers=older_printers or {},
        warnings=warnings or {},
        admission=replace(admission, quota=QUOTA),
        validation=validation,
        writes=replace(writes, reset_fields=usual | dict(writes.reset_fields)),
        deletion=deletion,
        rewind=rewind,
        release=replace(named.release, feature_gate=feature_gate),
        field_selection=fields,
        types=replace(named.types, selects_by_labels=selects_by_labels),
    )
