"""Whether a fault's own promise was kept, judged by what was seen of the cluster: see :mod:`dra_shared.faults.story`.

What must hold after every fault is in :mod:`dra_shared.faults.invariants`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_shared.api.pod import Pod
from dra_shared.claims import POD_CLAIM_ANNOTATION, controller_of
from dra_shared.faults.invariants import devices_twice
from dra_shared.faults.story import Sample, Story

Device = tuple[str, str, str]

#: NodeMonitorGracePeriod of the node lifecycle controller, and what its loop adds.
_SILENCE = 40.0
_NOTICED = 10.0
_SOON = 3.0


@dataclass(frozen=True)
class Judge:
    """A part of a promise: what holds, in a few words, what spoke against it, and whether time may heal that."""

    holds: str
    breaches: Callable[[Story], Iterable[str]]
    heals: bool = False


def judge(story: Story) -> tuple[list[str], list[str]]:
    """What was kept of the fault's promise, and a line for each breach."""
    kept, broken = [], []
    for one in PROMISES[story.fault]:
        found = list(dict.fromkeys(one.breaches(story)))
        broken += found
        if not found:
            kept.append(one.holds)
    return kept, broken


def healing(story: Story) -> list[str]:
    """The breaches that may be none a moment later: what is not back yet."""
    return [line for one in PROMISES[story.fault] if one.heals for line in one.breaches(story)]


def _containers_go_on(story: Story) -> Iterable[str]:
    for uid, pod in story.before.pods.items():
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
            continue
        if _tainted(story) & _held(story, uid):
            continue
        restarts = _restarts(pod)
        deleted = False
        for sample in story.later():
            now = sample.pods.get(uid)
            if now is None:
                if not deleted:
                    yield f"pod {pod.key} is gone"
                break
            deleted = deleted or now.metadata.deletion_timestamp is not None
            if deleted:
                if any(one.type == "DisruptionTarget" for one in now.status.conditions):
                    yield f"pod {pod.key} was evicted"
            elif now.status.phase != "Running":
                yield f"pod {pod.key} ran, and was {now.status.phase} after {sample.at:.1f} s"
            elif _restarts(now) > restarts:
                yield f"containers of pod {pod.key} were restarted"


def _claims_stay(story: Story) -> Iterable[str]:
    for uid, claim in story.before.claims.items():
        if claim.status.allocation is None:
            continue
        for sample in story.later():
            now = sample.claims.get(uid)
            if now is None or now.status.allocation is None:
                # Its pod ended: what still refers to it is the invariants' to find.
                break
            if now.status.allocation.devices.results != claim.status.allocation.devices.results:
                yield f"claim {claim.key} has other devices than before"


def _nothing_twice(story: Story) -> Iterable[str]:
    for sample in story.later():
        yield from devices_twice(list(sample.claims.values()))
        owners = ((controller_of(claim), claim) for claim in sample.claims.values())
        made = Counter(
            (owner.name, owner.uid, claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, ""))
            for owner, claim in owners
            if owner is not None and owner.kind == "Pod"
        )
        for (pod, _, name), count in made.items():
            if name and count > 1:
                yield f"{count} claims {name} were made for pod {pod}"


def _nothing_lost(story: Story) -> Iterable[str]:
    known = {one.metadata.uid: one for one in story.before.objects()}
    for sample in story.later():
        for now in sample.objects():
            then = known.get(now.metadata.uid)
            if then is not None and _revision(now.metadata.resource_version) < _revision(
                then.metadata.resource_version
            ):
                yield f"{now.metadata.name} is as it was before its revision {then.metadata.resource_version}"
            known[now.metadata.uid] = now


def _slices_back(story: Story) -> Iterable[str]:
    before, after = _published(story.before, story.node), _published(story.after, story.node)
    if missing := before - after:
        yield f"{len(missing)} devices of {story.node} are not published again, such as {min(missing)[2]}"


def _tainted_and_free(story: Story) -> Iterable[str]:
    tainted = _tainted(story)
    if not tainted and story.seconds > _SOON:
        yield f"no device of {story.node} was tainted"
    for device in sorted(tainted & _tainted_now(story.after, story.node)):
        yield f"device {'/'.join(device)} is still tainted"


def _not_given(story: Story) -> Iterable[str]:
    known = set(story.before.claims)
    tainted: set[Device] = set()
    for sample in story.during:
        for uid, claim in sample.claims.items():
            allocation = claim.status.allocation
            if uid in known or allocation is None:
                continue
            for result in allocation.devices.results:
                if (result.driver, result.pool, result.device) in tainted and not result.tolerations:
                    yield f"claim {claim.key} was given the tainted device {result.device}"
            known.add(uid)
        # What was decided between two looks may be older than the taint.
        tainted = tainted & _blocked(sample, story.node) if tainted else _blocked(sample, story.node)


def _node_ready(story: Story) -> Iterable[str]:
    for sample in story.later():
        for node in sample.nodes.values():
            if node.metadata.name == story.node and not _is_ready(sample, story.node):
                yield f"node {story.node} was NotReady after {sample.at:.1f} s"


def _silence_noticed(story: Story) -> Iterable[str]:
    seen = [sample for sample in story.during if not _is_ready(sample, story.node)]
    if story.seconds > _SILENCE + _NOTICED and not seen:
        yield f"node {story.node} stayed Ready"
    for sample in seen:
        if sample.at < _SILENCE / 2:
            yield f"node {story.node} was NotReady after {sample.at:.1f} s already"
    if not _is_ready(story.after, story.node):
        yield f"node {story.node} is not Ready again"


def _node_back(story: Story) -> Iterable[str]:
    if not _is_ready(story.after, story.node):
        yield f"node {story.node} is not registered again"
    if not any(
        story.node not in {node.metadata.name for node in sample.nodes.values()} for sample in story.during
    ):
        yield f"node {story.node} was never gone"


def _restarts(pod: Pod) -> int:
    return sum(status.restart_count for status in pod.status.container_statuses)


def _held(story: Story, uid: str) -> set[Device]:
    """The devices of a pod's claims."""
    return {
        (result.driver, result.pool, result.device)
        for claim in story.before.claims.values()
        if any(consumer.uid == uid for consumer in claim.status.reserved_for)
        and claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    }


def _tainted(story: Story) -> set[Device]:
    """What was tainted meanwhile and not before."""
    found: set[Device] = set()
    for sample in story.during:
        found |= _tainted_now(sample, story.node)
    return found - _tainted_now(story.before, story.node)


def _tainted_now(sample: Sample, node: str) -> set[Device]:
    return {key for key, effects in _taints(sample, node).items() if effects}


def _blocked(sample: Sample, node: str) -> set[Device]:
    effects = {"NoSchedule", "NoExecute"}
    return {key for key, found in _taints(sample, node).items() if effects & set(found)}


def _taints(sample: Sample, node: str) -> dict[Device, list[str]]:
    return {
        (one.spec.driver, one.spec.pool.name, device.name): [taint.effect for taint in device.taints]
        for one in sample.slices.values()
        if one.spec.node_name == node
        for device in one.spec.devices
    }


def _published(sample: Sample, node: str) -> set[Device]:
    return set(_taints(sample, node))


def _is_ready(sample: Sample, name: str) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for node in sample.nodes.values()
        if node.metadata.name == name
        for condition in node.status.conditions
    )


def _revision(text: str) -> int:
    return int(text) if text.isdigit() else 0


CONTAINERS = Judge("containers went on", _containers_go_on)
CLAIMS = Judge("claims have the devices of before", _claims_stay)
ONCE = Judge("nothing was done twice", _nothing_twice)
STORED = Judge("nothing that was stored was lost", _nothing_lost)
SLICES = Judge("its devices are published again", _slices_back, heals=True)
TAINTED = Judge("its devices were tainted, and are not any more", _tainted_and_free, heals=True)
AVOIDED = Judge("no new claim got them", _not_given)
READY = Judge("the node stayed Ready", _node_ready)
SILENCE = Judge("the node was given its time, and is Ready", _silence_noticed, heals=True)
BACK = Judge("the node was gone, and is back", _node_back, heals=True)

_OF_CALLS = (CONTAINERS, CLAIMS, ONCE)
#: What each fault's promise consists of, besides the invariants.
PROMISES: Mapping[str, Sequence[Judge]] = {
    "latency": (CONTAINERS, CLAIMS, ONCE, STORED),
    "error": (CONTAINERS, CLAIMS, ONCE, STORED),
    "conflict": (CONTAINERS, CLAIMS, ONCE, STORED),
    "watch-cut": (CONTAINERS, CLAIMS, ONCE, STORED),
    "watch-behind": (CONTAINERS, CLAIMS, ONCE, STORED),
    "reset": (CONTAINERS, CLAIMS, ONCE, STORED),
    "loss": (CONTAINERS, CLAIMS, ONCE, STORED),
    "stop": (CONTAINERS, CLAIMS, ONCE, STORED),
    "kill": (CLAIMS, ONCE, STORED),
    "two-schedulers": (CONTAINERS, CLAIMS, ONCE),
    "xid": (TAINTED, AVOIDED, CONTAINERS, CLAIMS),
    "gpu-lost": (TAINTED, AVOIDED, SLICES, CONTAINERS, CLAIMS),
    "ecc": (CONTAINERS, CLAIMS),
    "mig-changed": (CONTAINERS, CLAIMS),
    "memory-full": (CONTAINERS, CLAIMS),
    "driver-crash": (SLICES, CONTAINERS, CLAIMS, ONCE),
    "driver-hang": _OF_CALLS,
    "driver-slow": _OF_CALLS,
    "driver-wrong": _OF_CALLS,
    "driver-gone": _OF_CALLS,
    "driver-reset": _OF_CALLS,
    "driver-old": _OF_CALLS,
    "kubelet-stop": (CONTAINERS, CLAIMS, ONCE),
    "checkpoint-lost": (CONTAINERS, CLAIMS, ONCE),
    "checkpoint-corrupt": (CONTAINERS, CLAIMS, ONCE),
    "disk-full": (CLAIMS, ONCE),
    "node-silent": (SILENCE, ONCE),
    "node-gone": (BACK, SLICES, ONCE),
    "clock-ahead": (READY, CONTAINERS, CLAIMS),
}
