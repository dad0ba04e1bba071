"""The kinds of scheduling.k8s.io (upstream's `pkg/registry/scheduling`)."""

from __future__ import annotations

from dra_apiserver.common import objectcells
from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kinds.pods import priority
from dra_apiserver.kinds.scheduling import columns, defaults, grouppriority, podgroupadmission, priorityclass
from dra_apiserver.kinds.scheduling.strategy import (
    PodGroupStatusStrategy,
    PodGroupStrategy,
    SchedulingWorkloadStrategy,
)

KINDS = (
    builtin(
        "scheduling.k8s.io",
        "compositepodgroups",
        strategy=PodGroupStrategy(),
        status_strategy=PodGroupStatusStrategy(),
        printer=printer("Name|Policy|Workload|Status|Age", columns.pod_group),
        mutating_admission=(("Priority", grouppriority.priority),),
        feature_gate="CompositePodGroup",
        reset_fields={"": (), "status": STATUS_ALONE},
    ),
    builtin(
        "scheduling.k8s.io",
        "podgroups",
        strategy=PodGroupStrategy(),
        status_strategy=PodGroupStatusStrategy(),
        printer=printer("Name|Policy|Workload|Status|Age", columns.pod_group),
        mutating_admission=(
            ("Priority", grouppriority.priority),
            ("PodGroupProtection", podgroupadmission.protect),
        ),
        validating_admission=(("PodGroupWorkloadExists", podgroupadmission.workload_exists),),
        feature_gate="GenericWorkload",
        reset_fields={"": (), "status": STATUS_ALONE},
    ),
    builtin(
        "scheduling.k8s.io",
        "priorityclasses",
        strategy=priorityclass.PriorityClassStrategy(),
        default=defaults.priority_class,
        printer=printer("Name|Value#|Global-Default?|Age|PreemptionPolicy", columns.priority_class),
        mutating_admission=(("Priority", priority.priority),),
        counts_generation=True,
    ),
    builtin(
        "scheduling.k8s.io",
        "workloads",
        strategy=SchedulingWorkloadStrategy(),
        printer=printer("Name|Age", objectcells.named),
        feature_gate="GenericWorkload",
    ),
)
