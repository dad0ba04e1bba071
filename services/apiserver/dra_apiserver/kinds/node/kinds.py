"""The kinds of node.k8s.io (upstream's `pkg/registry/node`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes
from dra_apiserver.kinds.node import columns, validation, warnings

KINDS = (
    builtin(
        "node.k8s.io",
        "runtimeclasses",
        strategy=CheckedStrategy(validation.check_runtime_class),
        printer=printer("Name|Handler|Age", columns.runtime_class),
        warnings={"": warnings.runtime_class},
        writes=Writes(allow_create_on_update=True, allow_unconditional_update=False),
    ),
)
