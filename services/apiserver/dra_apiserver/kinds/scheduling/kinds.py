"""The kinds of scheduling.k8s.io (upstream's `pkg/registry/scheduling`)."""

from __future__ import annotations

from dra_apiserver.common import objectcells
from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Writes
from dra_apiserver.kinds.pods import priority
from dra_apiserver.kinds.scheduling import columns, grouppriority, podgroupadmission, priorityclass
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
        printer=printer("Name|Policy|Workload|Age", columns.composite_pod_group),
        admission=Admission(mutating=(("Priority", grouppriority.priority),)),
        feature_gate="CompositePodGroup",
        writes=Writes(reset_fields={"": (), "status": STATUS_ALONE}),
    ),
    builtin(
        "scheduling.k8s.io",
        "podgroups",
        strategy=PodGroupStrategy(),
        status_strategy=PodGroupStatusStrategy(),
        printer=printer("Name|Policy|Workload|Status|Age", columns.pod_group),
        admission=Admission(
            mutating=(
                ("Priority", grouppriority.priority),
                ("PodGroupProtection", podgroupadmission.protect),
            ),
            validating=(("PodGroupWorkloadExists", podgroupadmission.workload_exists),),
        ),
        feature_gate="GenericWorkload",
        writes=Writes(reset_fields={"": (), "status": STATUS_ALONE}),
    ),
    builtin(
        "scheduling.k8s.io",
        "priorityclasses",
        strategy=priorityclass.PriorityClassStrategy(),
        default=priorityclass.set_default_preemption_policy,
        printer=printer("Name|Value#|Global-Default?|Age|PreemptionPolicy", columns.priority_class),
        admission=Admission(mutating=(("Priority", priority.priority),)),
        writes=Writes(counts_generation=True),
    ),
    builtin(
        "scheduling.k8s.io",
        "workloads",
        strategy=SchedulingWorkloadStrategy(),
        printer=printer("Name|Age", objectcells.name_and_age),
        feature_gate="GenericWorkload",
    ),
)
