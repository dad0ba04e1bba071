"""The kinds of apiregistration.k8s.io (`kube-aggregator/pkg/registry`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Validation, Writes
from dra_apiserver.kinds.apiregistration import columns, defaults

KINDS = (
    builtin(
        "apiregistration.k8s.io",
        "apiservices",
        default=defaults.api_service,
        printer=printer("Name|Service|Available|Age", columns.api_service),
        validation=Validation(core_metadata=False),
        writes=Writes(allow_unconditional_update=False, reset_fields={"status": STATUS_ALONE}),
    ),
)
