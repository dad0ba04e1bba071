"""The kinds of apiextensions.k8s.io (`apiextensions-apiserver/pkg/registry`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.kindkit.behaviour import Validation, Writes
from dra_apiserver.kinds.custom import definitions
from dra_apiserver.kinds.custom.definitionstrategy import DefinitionStrategy

KINDS = (
    builtin(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        strategy=DefinitionStrategy(),
        default=definitions.set_definition_defaults,
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
        validation=Validation(core_metadata=False, has_expressions=True),
    ),
)
