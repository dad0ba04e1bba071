"""Declares a built-in kind: its names are the schema data's, its behaviour is its room's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dra_shared.names import NameRule, dns_subdomain_name

from dra_apiserver.common.generic import GenericStrategy
from dra_apiserver.common.quota import QUOTA
from dra_apiserver.kindkit.kind import (
    CheckEscalation,
    Convert,
    Default,
    FieldLabelError,
    FieldPath,
    Kind,
    Object,
    Plugin,
    Printer,
    Rewind,
    Warn,
)
from dra_apiserver.kindkit.names import named_kind
from dra_apiserver.kindkit.strategy import Strategy

_GENERIC: Strategy = GenericStrategy()
_PLAIN_REWIND = Rewind()
_SPEC: tuple[FieldPath, ...] = (("f:spec",),)
_STATUS: tuple[FieldPath, ...] = (("f:status",),)
STATUS_ALONE: tuple[FieldPath, ...] = (("f:metadata",), ("f:spec",))
"""What a status write leaves as it is where it writes no metadata, either."""


# Long: a kind has many fields, and each is passed on by name so that types are checked.
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
    warnings: Mapping[str, Warn] | None = None,
    mutating_admission: Sequence[Plugin] = (),
    validating_admission: Sequence[Plugin] = (),
    quota_admission: Sequence[Plugin] = QUOTA,
    exclusive: bool = False,
    selects_by_labels: bool = False,
    name_rule: NameRule = dns_subdomain_name,
    core_metadata: bool = True,
    counts_generation: bool = False,
    keeps_status_on_create: bool = False,
    feature_gate: str = "",
    allow_create_on_update: bool = False,
    allow_unconditional_update: bool = True,
    conditional_versions: frozenset[str] = frozenset(),
    return_deleted_object: bool = False,
    has_expressions: bool = False,
    orphans_dependents: bool = False,
    orphans_warning: str = "",
    check_graceful_delete: Callable[[Object, int | None], int] | None = None,
    terminate: Callable[[Object], None] | None = None,
    is_finalized: Callable[[Object], bool] | None = None,
    undeletable: Mapping[str, str] | None = None,
    check_escalation: CheckEscalation | None = None,
    reset_fields: Mapping[str, Sequence[FieldPath]] | None = None,
    field_label_error: FieldLabelError | None = None,
    rewind: Rewind = _PLAIN_REWIND,
    indexed_field: str = "",
) -> Kind:
    """A kind of the schema data with the behaviour given; what is left out is upstream's usual.

    ``reset_fields`` are those of subresources whose fields are not the usual ones: a write of the object resets its
    status, one of its status resets the spec.
    """
    named = named_kind(group, plural)
    strategies: dict[str, Strategy] = dict.fromkeys(("", "status", *named.subresources), _GENERIC)
    strategies[""] = strategy
    usual: dict[str, Sequence[FieldPath]] = {"": _STATUS, "status": _SPEC} if named.has_status else {}
    if named.has_status:
        strategies["status"] = status_strategy
    return replace(
        named,
        strategies=strategies | dict(subresource_strategies or {}),
        default=default,
        conversions=conversions or {},
        printers={} if printer is None else {"": printer},
        warnings=warnings or {},
        mutating_admission=mutating_admission,
        validating_admission=validating_admission,
        quota_admission=quota_admission,
        exclusive=exclusive,
        selects_by_labels=selects_by_labels,
        name_rule=name_rule,
        core_metadata=core_metadata,
        counts_generation=counts_generation,
        keeps_status_on_create=keeps_status_on_create,
        feature_gate=feature_gate,
        allow_create_on_update=allow_create_on_update,
        allow_unconditional_update=allow_unconditional_update,
        conditional_versions=conditional_versions,
        return_deleted_object=return_deleted_object,
        has_expressions=has_expressions,
        orphans_dependents=orphans_dependents,
        orphans_warning=orphans_warning,
        check_graceful_delete=check_graceful_delete,
        terminate=terminate,
        is_finalized=is_finalized,
        undeletable=undeletable or {},
        check_escalation=check_escalation,
        reset_fields=usual | dict(reset_fields or {}),
        field_label_error=field_label_error,
        rewind=rewind,
        indexed_field=indexed_field,
    )
