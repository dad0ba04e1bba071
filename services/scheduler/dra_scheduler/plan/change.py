"""``plan change``: the placement of the same pods before and after an edit of anything that decisions depend on."""

from collections.abc import Mapping

import msgspec
from dra_shared.api.meta import Struct
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS

from dra_scheduler.plan.fit import PodPlace
from dra_scheduler.plan.simulation import Simulation
from dra_scheduler.plan.tables import table

_replace = msgspec.structs.replace


class Changed(Struct):
    """A pod whose placement differs.

    ``before`` and ``after`` have its node and devices, or the reason why it has none.
    """

    pod: str
    before: PodPlace
    after: PodPlace


class Comparison(Struct):
    """The answer: how many of ``pods`` are placed before and after, and the pods that differ.

    Pods with claims and waiting pods are scheduled again in both worlds, in the order of creation. ``left_out``
    are workloads of unknown kinds among the edits, which have no effect.
    """

    pods: int
    before: int
    after: int
    changed: tuple[Changed, ...] = ()
    uncertain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [
            (c.pod, c.before.node or c.before.message, c.after.node or c.after.message) for c in self.changed
        ]
        return table(f"{self.before} placed before, {self.after} after", ("pod", "before", "after"), rows)

    @property
    def good(self) -> bool:
        """True if every pod that was placed before is placed after."""
        return not self.left_out and all(
            bool(each.after.node) or not each.before.node for each in self.changed
        )


def places(world: Simulation) -> Mapping[str, PodPlace]:
    """Schedule all pods that have claims or wait again, and return their places."""
    # Ignore quotas, because the pods already exist.
    with world.trial(), world.without_quotas():
        pods = [pod for pod in world.client.objects(PODS) if _counts(pod)]
        pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
        for pod in pods:
            world.remove(PODS, pod.key)
        for pod in pods:
            status = _replace(pod.status, resource_claim_statuses=(), conditions=(), nominated_node_name="")
            world.add(PODS, _replace(pod, spec=_replace(pod.spec, node_name=""), status=status))
        world.settle()
        return {pod.key: _place(world, pod.key) for pod in pods}


def compare(before: Mapping[str, PodPlace], after: Mapping[str, PodPlace]) -> Comparison:
    """Return the differences. Pods that exist in only one of both are ignored."""
    both = [key for key in before if key in after]
    differ = [key for key in both if before[key] != after[key]]
    return Comparison(
        pods=len(both),
        before=sum(bool(before[key].node) for key in both),
        after=sum(bool(after[key].node) for key in both),
        changed=tuple(Changed(pod=key, before=before[key], after=after[key]) for key in differ),
    )


def _counts(pod: Pod) -> bool:
    if pod.status.phase in ("Succeeded", "Failed"):
        return False
    return bool(pod.spec.resource_claims) or not pod.spec.node_name


def _place(world: Simulation, key: str) -> PodPlace:
    pod = world.pod(key)
    if pod is None:
        return PodPlace(pod=key, message="preempted")
    if pod.spec.node_name:
        return PodPlace(pod=key, node=pod.spec.node_name, devices=world.devices(pod))
    return PodPlace(pod=key, message=world.message(key, ""))
