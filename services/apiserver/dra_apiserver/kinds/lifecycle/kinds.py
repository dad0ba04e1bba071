"""The kinds of lifecycle.k8s.io (upstream's `pkg/registry/lifecycle`).

No service acts on these kinds. They are served because clients use them:

* evictionrequests.lifecycle.k8s.io: clients ask for graceful evictions of pods.
* evictions.lifecycle.k8s.io: kube-controller-manager creates them from the requests, and responders act on them.
"""

from __future__ import annotations

from dra_apiserver.common.builtin import STATUS_ALONE, builtin
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.behaviour import Writes
from dra_apiserver.kinds.lifecycle import columns
from dra_apiserver.kinds.lifecycle.strategy import EvictionRequestStrategy, EvictionStrategy

_WRITES = Writes(
    allow_unconditional_update=False, counts_generation=True, reset_fields={"status": STATUS_ALONE}
)
_EVICTION = (
    "Name|Target|Target Type|Status|Active Responder|Responder Status|Responder Expected Finish|Requesters|Age|"
    "Responder Heartbeat*|Responder Status Message*"
)

KINDS = (
    builtin(
        "lifecycle.k8s.io",
        "evictionrequests",
        strategy=EvictionRequestStrategy(),
        status_strategy=EvictionRequestStrategy(),
        printer=printer("Name|Target|Target Type|Status|Requester|Intent|Age", columns.eviction_request),
        writes=_WRITES,
        feature_gate="EvictionRequestAPI",
    ),
    builtin(
        "lifecycle.k8s.io",
        "evictions",
        strategy=EvictionStrategy(),
        status_strategy=EvictionStrategy(),
        printer=printer(_EVICTION, columns.eviction),
        writes=_WRITES,
        feature_gate="EvictionRequestAPI",
    ),
)
