"""The kinds of apiextensions.k8s.io (`apiextensions-apiserver/pkg/registry`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.kinds.custom import defaults
from dra_apiserver.kinds.custom.definitionstrategy import DefinitionStrategy

KINDS = (
    builtin(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        strategy=DefinitionStrategy(),
        default=defaults.custom_resource_definition,
        counts_generation=True,
        core_metadata=False,
        allow_unconditional_update=False,
        has_expressions=True,
    ),
)
