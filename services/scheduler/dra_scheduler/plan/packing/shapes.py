"""Shapes: model pods. The planner tries any number of copies of a shape, each copy with its own claims."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.api.resource import ResourceClaimTemplate, ResourceClaimTemplateSpec
from dra_shared.api.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.units import Demand

_replace = msgspec.structs.replace


@dataclass(frozen=True)
class Shape:
    """A pod that represents ``count`` equal pods of the world. ``name`` is the name of the first of these pods."""

    name: str
    count: int
    wanted: Wanted


def shapes_of(objects: Objects, pods: Sequence[Pod]) -> list[Shape]:
    """Return the shapes of the pods, the largest first."""
    found = []
    for units in Demand(objects, pods).shapes:
        members = [pod for unit in units for pod in unit.pods]
        equal: dict[str, list[Pod]] = {}
        for index in range(len(units[0].pods)):
            # Pods that share a claim are tried one by one.
            equal[units[0].pods[index].key] = [unit.pods[index] for unit in units]
        assert sum(map(len, equal.values())) == len(members)
        for name, each in equal.items():
            found.append(Shape(name, len(each), _with_own_claims(objects, each[0])))
    return found


def _with_own_claims(objects: Objects, pod: Pod) -> Wanted:
    claims = objects.of(RESOURCE_CLAIMS)
    entries, templates = [], []
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name
        claim = claims.get(f"{pod.metadata.namespace}/{name}") if name is not None else None
        if claim is not None:
            meta = ObjectMeta(name=f"{name}-shape", namespace=pod.metadata.namespace)
            inner = ResourceClaimTemplateSpec(spec=claim.spec)
            templates.append((RESOURCE_CLAIM_TEMPLATES, ResourceClaimTemplate(metadata=meta, spec=inner)))
            entry = _replace(entry, resource_claim_name=None, resource_claim_template_name=meta.name)
        entries.append(entry)
    spec = _replace(
        pod.spec,
        node_name="",
        resource_claims=tuple(entries),
        scheduling_group=None,
        preemption_policy="Never",
    )
    meta = _replace(
        pod.metadata, name=f"{pod.metadata.name}-shape", uid="", deletion_timestamp=None, owner_references=()
    )
    return Wanted((Pod(metadata=meta, spec=spec, status=PodStatus()),), (), templates)
