"""The kinds of coordination.k8s.io (upstream's `pkg/registry/coordination`).

No service acts on these kinds. They stay:

* leasecandidates.coordination.k8s.io: kube-scheduler and kube-controller-manager write them for coordinated election.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Admission, Rewind, Writes
from dra_apiserver.kinds.coordination import columns, lease
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION

KINDS = (
    builtin(
        "coordination.k8s.io",
        "leasecandidates",
        printer=printer("Name|LeaseName|BinaryVersion|EmulationVersion|Age", columns.lease_candidate),
        writes=Writes(allow_create_on_update=True, allow_unconditional_update=False),
    ),
    builtin(
        "coordination.k8s.io",
        "leases",
        strategy=CheckedStrategy(lease.check_lease),
        printer=printer("Name|Holder|Age", columns.lease),
        admission=Admission(mutating=(NODE_RESTRICTION,)),
        writes=Writes(allow_create_on_update=True, allow_unconditional_update=False),
        # Leaders and live nodes are those of the present, even if the cluster is rewound.
        rewind=Rewind(stays=lambda _: True),
    ),
)
