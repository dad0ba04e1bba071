"""The kinds of coordination.k8s.io (upstream's `pkg/registry/coordination`).

No service acts on these kinds. They are served because clients use them:

* leasecandidates.coordination.k8s.io: kube-scheduler and kube-controller-manager write them for coordinated election.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.objectcells import age, name, part
from dra_apiserver.common.printing import printer
from dra_apiserver.errors import FieldError, invalid
from dra_apiserver.kindkit.behaviour import Admission, Rewind, Writes
from dra_apiserver.kinds.kubelets.restriction import NODE_RESTRICTION


def _check_lease(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a lease: its duration must be positive."""
    spec = obj.get("spec") or {}
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid("spec.leaseTransitions", transitions, text))
    return errors


def _lease_cells(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), part(obj, "spec").get("holderIdentity", ""), age(obj, now)]


def _lease_candidate_cells(obj: JsonObject, now: datetime) -> list[Any]:
    spec = part(obj, "spec")
    texts = [spec.get(key, "") for key in ("leaseName", "binaryVersion", "emulationVersion")]
    return [name(obj), *texts, age(obj, now)]


KINDS = (
    builtin(
        "coordination.k8s.io",
        "leasecandidates",
        printer=printer("Name|LeaseName|BinaryVersion|EmulationVersion|Age", _lease_candidate_cells),
        writes=Writes(allow_create_on_update=True, allow_unconditional_update=False),
    ),
    builtin(
        "coordination.k8s.io",
        "leases",
        strategy=CheckedStrategy(_check_lease),
        printer=printer("Name|Holder|Age", _lease_cells),
        admission=Admission(mutating=(NODE_RESTRICTION,)),
        writes=Writes(allow_create_on_update=True, allow_unconditional_update=False),
        # Leaders and live nodes are those of the present, even if the cluster is rewound.
        rewind=Rewind(stays=lambda _: True),
    ),
)
