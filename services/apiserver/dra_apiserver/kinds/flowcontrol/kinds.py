"""The kinds of flowcontrol.apiserver.k8s.io (upstream's `pkg/registry/flowcontrol`).

No service acts on these kinds. They are served because clients use them:

* flowschemas.flowcontrol.apiserver.k8s.io: clients list the system's. Here one fixed limit holds.
* prioritylevelconfigurations.flowcontrol.apiserver.k8s.io: flow schemas name them.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.checked import CheckedStrategy, StatusStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes
from dra_apiserver.kinds.flowcontrol import columns, defaults, validation

KINDS = (
    builtin(
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        strategy=CheckedStrategy(validation.check_flow_schema),
        status_strategy=StatusStrategy(validation.check_conditions, keeps_all=True),
        default=defaults.flow_schema,
        printer=printer(
            "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
            columns.flow_schema,
            sort_key=columns.precedence,
        ),
        writes=Writes(counts_generation=True, reset_fields={"status": STATUS_ALONE}),
    ),
    builtin(
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        strategy=CheckedStrategy(validation.check_priority_level),
        status_strategy=StatusStrategy(validation.check_conditions, keeps_all=True),
        default=defaults.priority_level,
        printer=printer(
            "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age", columns.priority_level
        ),
        writes=Writes(counts_generation=True, reset_fields={"status": STATUS_ALONE}),
    ),
)
