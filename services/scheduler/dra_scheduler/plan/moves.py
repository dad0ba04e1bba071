"""``plan drain``, ``remove``, ``taint`` and ``upgrade``: the pods that move, their new nodes, and the pods without one.

Mirrors the rules of evictions: the eviction subresource (``pkg/registry/core/pod/storage/eviction.go``),
which respects PodDisruptionBudgets, and ``kubectl drain``, which ignores static pods and those of
DaemonSets, and does not touch pods that no controller would recreate.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from dra_shared.api.meta import Struct
from dra_shared.api.node import Taint
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.api.policy import PodDisruptionBudget
from dra_shared.api.resource import DeviceTaint
from dra_shared.api.resources import NODES, POD_DISRUPTION_BUDGETS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.claims import controller_of
from dra_shared.taints import find_untolerated as untolerated_device

from dra_scheduler.plan.simulation import Simulation, Stopped
from dra_scheduler.plan.tables import table
from dra_scheduler.plugins.budgets import split_by_budgets
from dra_scheduler.plugins.tainttoleration import find_untolerated

_replace = msgspec.structs.replace

_MIRROR = "kubernetes.io/config.mirror"
_BUDGET = "a PodDisruptionBudget allows no disruption"
_UNMANAGED = "no controller would make it again; kubectl drain needs --force"


class Move(Struct):
    """A pod that has to leave ``before``: its new node, or in ``stuck`` the reason why it has none.

    A recreated pod has a new name. ``pod`` is the old one.
    """

    pod: str
    before: str
    devices_before: tuple[str, ...] = ()
    after: str = ""
    devices_after: tuple[str, ...] = ()
    stuck: str = ""


class Moves(Struct):
    """The answer: the moves in the order in which they were made, and the number of stuck pods.

    ``order`` has the nodes in the order in which they are drained one by one, the emptiest first. ``preempted``
    are pods that would be preempted. Without ``complete`` the search was interrupted.
    """

    moved: int
    stuck: int
    moves: tuple[Move, ...] = ()
    order: tuple[str, ...] = ()
    preempted: dict[str, str] = msgspec.field(default_factory=dict)
    complete: bool = True
    uncertain: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [(m.pod, m.before, m.after or m.stuck, ", ".join(m.devices_after)) for m in self.moves]
        return table(f"{self.moved} move, {self.stuck} stuck", ("pod", "from", "to", "devices"), rows)

    @property
    def good(self) -> bool:
        """True if no pod is stuck."""
        return self.complete and not self.stuck


class Mover:
    """Moves pods in a world. The changes of each question are undone at its end."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._moves: list[Move] = []

    def drain(self, nodes: Sequence[str]) -> Moves:
        """Cordon the nodes and evict their pods."""
        return self._answer(lambda: self._drain(nodes))

    def remove(self, nodes: Sequence[str]) -> Moves:
        """Delete the nodes with their devices at once. Disruption budgets do not apply."""
        return self._answer(lambda: self._remove(nodes))

    def taint_node(self, node: str, taint: Taint) -> Moves:
        """Add the taint to the node."""
        return self._answer(lambda: self._taint_node(node, taint))

    def taint_device(self, driver: str, pool: str, device: str, taint: DeviceTaint) -> Moves:
        """Add the taint to the device."""
        return self._answer(lambda: self._taint_device((driver, pool, device), taint))

    def upgrade(self, nodes: Sequence[str]) -> Moves:
        """Drain the nodes one after the other. Each one returns before the next one is drained."""
        order: list[str] = []
        answer = self._answer(lambda: self._upgrade(nodes, order))
        return _replace(answer, order=tuple(order))

    def _answer(self, work: Callable[[], None]) -> Moves:
        self._moves = []
        complete = True
        with self._world.trial():
            try:
                self._world.settle()
                work()
            except Stopped:
                complete = False
            moves = tuple(self._moves)
            stuck = sum(bool(move.stuck) for move in moves)
            preempted = dict(self._world.preemptions)
        return Moves(
            moved=len(moves) - stuck, stuck=stuck, moves=moves, preempted=preempted, complete=complete
        )

    def _drain(self, nodes: Iterable[str]) -> None:
        names = list(nodes)
        for name in names:
            self._cordon(name, True)
        self._evict(self._movable(names))

    def _cordon(self, name: str, cordoned: bool) -> None:
        node = self._world.client.find(NODES, name)
        if node is not None:
            self._world.add(NODES, _replace(node, spec=_replace(node.spec, unschedulable=cordoned)))

    def _remove(self, nodes: Sequence[str]) -> None:
        gone = set(nodes)
        pods = self._movable(nodes, daemons=True)
        pieces = [p for p in self._world.client.objects(RESOURCE_SLICES) if p.spec.node_name in gone]
        for piece in pieces:
            self._world.remove(RESOURCE_SLICES, piece.key)
        for name in nodes:
            self._world.remove(NODES, name)
        daemons = {pod.key for pod in pods if is_bound_to_node(pod)}
        for pod in pods:
            if pod.key in daemons:
                self._world.remove(PODS, pod.key)
        self._evict([pod for pod in pods if pod.key not in daemons], guarded=False)

    def _taint_node(self, name: str, taint: Taint) -> None:
        node = self._world.client.find(NODES, name)
        if node is None:
            return
        kept = tuple(t for t in node.spec.taints if (t.key, t.effect) != (taint.key, taint.effect))
        self._world.add(NODES, _replace(node, spec=_replace(node.spec, taints=(*kept, taint))))
        if taint.effect == "NoExecute":
            pods = self._movable([name], daemons=True)
            leaving = [p for p in pods if find_untolerated(p, (taint,), ("NoExecute",)) is not None]
            self._evict(leaving, guarded=False)

    def _taint_device(self, place: tuple[str, str, str], taint: DeviceTaint) -> None:
        client = self._world.client
        for piece in client.objects(RESOURCE_SLICES):
            if (piece.spec.driver, piece.spec.pool.name) != place[:2]:
                continue
            devices = tuple(
                _replace(d, taints=(*d.taints, taint)) if d.name == place[2] else d
                for d in piece.spec.devices
            )
            if devices != piece.spec.devices:
                self._world.add(RESOURCE_SLICES, _replace(piece, spec=_replace(piece.spec, devices=devices)))
        if taint.effect != "NoExecute":
            return
        leaving = set()
        for claim in client.objects(RESOURCE_CLAIMS):
            results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
            for result in results:
                here = (result.driver, result.pool, result.device) == place
                if here and untolerated_device((taint,), result.tolerations) is not None:
                    leaving |= {consumer.uid for consumer in claim.status.reserved_for}
        self._evict([p for p in client.objects(PODS) if p.metadata.uid in leaving], guarded=False)

    def _upgrade(self, nodes: Sequence[str], order: list[str]) -> None:
        """Drain one node after the other and record their order."""
        left = list(nodes)
        while left:
            # Upgrade the emptiest node first. Each upgraded node adds free room for the pods of the next
            # ones.
            left.sort(key=lambda name: (len(self._movable([name])), nodes.index(name)))
            name = left.pop(0)
            order.append(name)
            self._drain([name])
            self._cordon(name, False)
            self._world.settle()

    def _movable(self, nodes: Iterable[str], *, daemons: bool = False) -> list[Pod]:
        wanted = set(nodes)
        return [
            pod
            for pod in self._world.client.objects(PODS)
            if pod.spec.node_name in wanted
            and pod.status.phase not in ("Succeeded", "Failed")
            and (daemons or not is_bound_to_node(pod))
        ]

    def _evict(self, pods: Sequence[Pod], *, guarded: bool = True) -> None:
        """Evict the pods one by one. Retry those that a budget blocks after others have found a new node."""
        left = list(pods)
        while left:
            held_back = [pod for pod in left if not self._try_to_evict(pod, guarded)]
            if len(held_back) == len(left):
                break
            left = held_back
        self._moves += [
            Move(
                pod=pod.key,
                before=pod.spec.node_name,
                devices_before=self._world.devices(pod),
                after=pod.spec.node_name,
                stuck=_BUDGET,
            )
            for pod in left
        ]

    def _try_to_evict(self, pod: Pod, guarded: bool) -> bool:
        world = self._world
        devices = world.devices(pod)
        move = Move(pod=pod.key, before=pod.spec.node_name, devices_before=devices)
        if controller_of(pod) is None:
            if not guarded:
                world.remove(PODS, pod.key)
            self._moves.append(
                _replace(move, stuck=_UNMANAGED if guarded else "no controller makes it again")
            )
            return True
        budgets = [b for b in world.client.objects(POD_DISRUPTION_BUDGETS) if _covers(b, pod)]
        if guarded and split_by_budgets((pod,), budgets)[0]:
            return False
        self._charge(budgets, -1)
        world.remove(PODS, pod.key)
        again = self._recreate(pod)
        world.create(again)
        world.settle()
        placed = world.pod(again.key)
        if placed is not None and placed.spec.node_name:
            self._charge(budgets, 1)
            after = world.devices(placed)
            self._moves.append(_replace(move, after=placed.spec.node_name, devices_after=after))
            return True
        self._moves.append(_replace(move, stuck=world.message(again.key)))
        return True

    def _recreate(self, pod: Pod) -> Pod:
        """Return the pod as its controller recreates it, with new claims if it has templates."""
        name = pod.metadata.name
        while self._world.pod(f"{pod.metadata.namespace}/{name}") is not None or name == pod.metadata.name:
            name += "-again"
        meta = _replace(pod.metadata, name=name, uid=self._world.client.new_uid(), deletion_timestamp=None)
        return Pod(metadata=meta, spec=_replace(pod.spec, node_name=""), status=PodStatus())

    def _charge(self, budgets: Iterable[PodDisruptionBudget], change: int) -> None:
        for budget in budgets:
            newest: Any = self._world.client.find(POD_DISRUPTION_BUDGETS, budget.key)
            allowed = newest.status.disruptions_allowed + change
            status = _replace(newest.status, disruptions_allowed=allowed)
            self._world.add(POD_DISRUPTION_BUDGETS, _replace(newest, status=status))


def is_bound_to_node(pod: Pod) -> bool:
    """True if the pod belongs to its node: a static pod, or one of a DaemonSet."""
    owner = controller_of(pod)
    return (owner is not None and owner.kind in ("DaemonSet", "Node")) or _MIRROR in pod.metadata.annotations


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """True if the budget covers the pod, so that it would block its eviction once it is used up."""
    empty = _replace(budget, status=_replace(budget.status, disruptions_allowed=0, disrupted_pods={}))
    return bool(split_by_budgets((pod,), (empty,))[0])
