"""The guarantees that the promises of faults consist of, each with its check on samples of the cluster.

The samples are in :mod:`dra_shared.faults.story`. Invariants that hold after every fault are in
:mod:`dra_shared.faults.invariants`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dra_shared.api.pod import Pod
from dra_shared.claims import POD_CLAIM_ANNOTATION, controller_of
from dra_shared.faults.invariants import devices_twice
from dra_shared.faults.story import Sample, Story
from dra_shared.numerals import integer, is_digits
from dra_shared.plurals import count

Device = tuple[str, str, str]

#: NodeMonitorGracePeriod of the node lifecycle controller, and what its loop adds.
_SILENCE = 40.0
_NOTICED = 10.0
_SOON = 3.0


@dataclass(frozen=True)
class Part:
    """One guarantee of a promise.

    ``holds`` is the statement. ``breaches`` finds its violations, which may disappear with time if ``heals``.
    ``untried`` returns the reason why it could not be tested, or an empty text.
    """

    holds: str
    breaches: Callable[[Story], Iterable[str]]
    untried: Callable[[Story], str]
    heals: bool = False


def _containers_go_on(story: Story) -> Iterable[str]:
    for uid, pod in story.before.pods.items():
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
            continue
        if _newly_tainted(story) & _devices_of_pod(story, uid):
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
                # The claim's pod has ended. Remaining references to the pod are checked by the invariants.
                break
            if now.status.allocation.devices.results != claim.status.allocation.devices.results:
                yield f"claim {claim.key} has other devices than before"


def _nothing_twice(story: Story) -> Iterable[str]:
    for sample in story.later():
        yield from devices_twice(list(sample.claims.values()))
        yield from _claims_twice(sample)
    yield from _moved_pods(story)


def _nothing_used_twice(story: Story) -> Iterable[str]:
    # Two schedulers may allocate a device to two claims. One of them deallocates it before it binds its pod.
    for sample in story.later():
        bound = {uid for uid, pod in sample.pods.items() if pod.spec.node_name}
        used = [
            claim
            for claim in sample.claims.values()
            if any(consumer.uid in bound for consumer in claim.status.reserved_for)
        ]
        yield from devices_twice(used)
        yield from _claims_twice(sample)
    yield from _moved_pods(story)


def _claims_twice(sample: Sample) -> Iterable[str]:
    owners = ((controller_of(claim), claim) for claim in sample.claims.values())
    made = Counter(
        (owner.name, owner.uid, claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, ""))
        for owner, claim in owners
        if owner is not None and owner.kind == "Pod"
    )
    for (pod, _, name), number in made.items():
        if name and number > 1:
            yield f"{number} claims {name} were made for pod {pod}"


def _moved_pods(story: Story) -> Iterable[str]:
    places: dict[str, str] = {}
    for sample in (story.before, *story.later()):
        for uid, one in sample.pods.items():
            first = places.setdefault(uid, one.spec.node_name) if one.spec.node_name else ""
            if first != one.spec.node_name:
                yield f"pod {one.key} was bound to node {first} and later to {one.spec.node_name}"


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
    before, after = _published_devices(story.before, story.node), _published_devices(story.after, story.node)
    if missing := before - after:
        devices = f"{count(len(missing), 'device')} of {story.node} {'is' if len(missing) == 1 else 'are'}"
        yield f"{devices} not published again, such as {min(missing)[2]}"


def _tainted_and_free(story: Story) -> Iterable[str]:
    tainted = _newly_tainted(story)
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
        # A decision between two samples may be older than the taint.
        tainted = (
            tainted & _blocked_devices(sample, story.node)
            if tainted
            else _blocked_devices(sample, story.node)
        )


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


def _boot_id_stays(story: Story) -> Iterable[str]:
    if not _is_ready(story.after, story.node):
        yield f"node {story.node} is not Ready again"
    if _boot_id(story.before, story.node) == _boot_id(story.after, story.node):
        yield f"node {story.node} has the same boot id as before"


def _boot_id(sample: Sample, name: str) -> str:
    found = (node.status.node_info for node in sample.nodes.values() if node.metadata.name == name)
    return next((info.boot_id for info in found if info is not None), "")


def _containers_restarted(story: Story) -> Iterable[str]:
    for uid, pod in story.before.pods.items():
        now = story.after.pods.get(uid)
        if not _runs_on(pod, story.node) or now is None or now.metadata.deletion_timestamp is not None:
            continue
        # Containers of other restart policies may have ended for good.
        if now.status.phase == "Running" and _restarts(now) <= _restarts(pod):
            yield f"containers of pod {pod.key} were not restarted"
        elif pod.spec.restart_policy in ("", "Always") and now.status.phase != "Running":
            yield f"pod {pod.key} ran, and is {now.status.phase}"


def _runs_on(pod: Pod, node: str) -> bool:
    return pod.spec.node_name == node and pod.status.phase == "Running"


def _none_ran_there(story: Story) -> str:
    ran = any(_runs_on(pod, story.node) for pod in story.before.pods.values())
    return "" if ran else f"no container ran on {story.node}"


def _always(_: Story) -> str:
    return ""


def _none_ran(story: Story) -> str:
    tainted = _newly_tainted(story)
    went = (
        uid
        for uid, pod in story.before.pods.items()
        if pod.status.phase == "Running"
        and pod.metadata.deletion_timestamp is None
        and not tainted & _devices_of_pod(story, uid)
    )
    return "" if any(True for _ in went) else "no container ran"


def _none_allocated(story: Story) -> str:
    given = any(claim.status.allocation is not None for claim in story.before.claims.values())
    return "" if given else "no claim had devices"


def _no_claims(story: Story) -> str:
    return "" if any(sample.claims for sample in story.later()) else "there was no claim"


def _no_new_claims(story: Story) -> str:
    return "" if _new_claims(story, story.during) else "no claim was given devices meanwhile"


def _none_scheduled(story: Story) -> str:
    known = {uid for uid, pod in story.before.pods.items() if pod.spec.node_name}
    placed = {uid for one in story.later() for uid, pod in one.pods.items() if pod.spec.node_name}
    scheduled = placed - known or _new_claims(story, story.later())
    return "" if scheduled else "no pod was scheduled meanwhile"


def _new_claims(story: Story, samples: Iterable[Sample]) -> set[str]:
    def allocated_uids(sample: Sample) -> set[str]:
        return {uid for uid, one in sample.claims.items() if one.status.allocation is not None}

    return {uid for sample in samples for uid in allocated_uids(sample)} - allocated_uids(story.before)


def _no_taint(story: Story) -> str:
    return "" if _newly_tainted(story) or story.seconds > _SOON else "no taint was seen in so short a time"


def _no_devices(story: Story) -> str:
    return "" if _published_devices(story.before, story.node) else f"{story.node} has no devices"


def _too_short(story: Story) -> str:
    seen = any(not _is_ready(sample, story.node) for sample in story.during)
    short = f"{story.node} was not silent for the {_SILENCE:.0f} seconds that make it NotReady"
    return "" if seen or story.seconds > _SILENCE + _NOTICED else short


def _restarts(pod: Pod) -> int:
    return sum(status.restart_count for status in pod.status.container_statuses)


def _devices_of_pod(story: Story, uid: str) -> set[Device]:
    """Return the devices of a pod's claims."""
    return {
        (result.driver, result.pool, result.device)
        for claim in story.before.claims.values()
        if any(consumer.uid == uid for consumer in claim.status.reserved_for)
        and claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    }


def _newly_tainted(story: Story) -> set[Device]:
    """Return the devices that were tainted during the fault and not before."""
    found: set[Device] = set()
    for sample in story.during:
        found |= _tainted_now(sample, story.node)
    return found - _tainted_now(story.before, story.node)


def _tainted_now(sample: Sample, node: str) -> set[Device]:
    return {key for key, effects in _taints(sample, node).items() if effects}


def _blocked_devices(sample: Sample, node: str) -> set[Device]:
    effects = {"NoSchedule", "NoExecute"}
    return {key for key, found in _taints(sample, node).items() if effects & set(found)}


def _taints(sample: Sample, node: str) -> dict[Device, list[str]]:
    return {
        (one.spec.driver, one.spec.pool.name, device.name): [taint.effect for taint in device.taints]
        for one in sample.slices.values()
        if one.spec.node_name == node
        for device in one.spec.devices
    }


def _published_devices(sample: Sample, node: str) -> set[Device]:
    return set(_taints(sample, node))


def _is_ready(sample: Sample, name: str) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for node in sample.nodes.values()
        if node.metadata.name == name
        for condition in node.status.conditions
    )


def _revision(text: str) -> int:
    return integer(text) if is_digits(text) else 0


CONTAINERS = Part("containers kept running", _containers_go_on, _none_ran)
CLAIMS = Part("claims kept their devices", _claims_stay, _none_allocated)
ONCE = Part("nothing was done twice", _nothing_twice, _no_claims)
RIVALS = Part("no device was used twice", _nothing_used_twice, _none_scheduled)
STORED = Part("nothing that was stored was lost", _nothing_lost, _always)
SLICES = Part("its devices are published again", _slices_back, _no_devices, heals=True)
TAINTED = Part("its devices were tainted, and are not any more", _tainted_and_free, _no_taint, heals=True)
AVOIDED = Part("no new claim got them", _not_given, _no_new_claims)
READY = Part("the node stayed Ready", _node_ready, _always)
SILENCE = Part("the node was given its time, and is Ready", _silence_noticed, _too_short, heals=True)
BOOTED = Part("the node has another boot id, and is Ready", _boot_id_stays, _always, heals=True)
RESTARTED = Part("its containers run again", _containers_restarted, _none_ran_there, heals=True)
BACK = Part("the node was gone, and is back", _node_back, _always, heals=True)

#: The guarantees that several kinds of faults share.
OF_REQUESTS = (CONTAINERS, CLAIMS, ONCE, STORED)
OF_CALLS = (CONTAINERS, CLAIMS, ONCE)
