"""The kinds of policy (upstream's `pkg/registry/policy`)."""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes
from dra_apiserver.kinds.policy import budget

KINDS = (
    builtin(
        "policy",
        "poddisruptionbudgets",
        strategy=CheckedStrategy(budget.check_disruption_budget),
        status_strategy=budget.BudgetStatusStrategy(),
        printer=printer(
            "Name|Min Available|Max Unavailable|Allowed Disruptions#|Age", budget.disruption_budget_cells
        ),
        writes=Writes(counts_generation=True, allow_unconditional_update=False),
    ),
)
