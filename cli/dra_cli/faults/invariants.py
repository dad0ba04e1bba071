"""What must hold of a cluster at rest, regardless of what happened before.

No device belongs to two claims, nothing refers to what is gone, and every pod runs that could. This is asked of the API
server alone, and of the scheduler for pods that wait.
"""

from collections import defaultdict
from collections.abc import Iterable

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import controller_of

_ENDED = ("Succeeded", "Failed")


def broken(pods: Iterable[Pod], claims: Iterable[ResourceClaim], fitting: Iterable[str] = ()) -> list[str]:
    """One line for each breach; ``fitting`` are the keys of waiting pods that the scheduler has a node for."""
    known = list(pods)
    owned = list(claims)
    return [
        *_devices_twice(owned),
        *_orphans(known, owned),
        *(f"pod {pod} waits, and a node could take it" for pod in sorted(fitting)),
        *_unready(known),
    ]


def waiting(pods: Iterable[Pod]) -> list[Pod]:
    """The pods without a node."""
    return [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]


def _devices_twice(claims: list[ResourceClaim]) -> Iterable[str]:
    holders: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if not result.admin_access and not result.share_id:
                holders[result.driver, result.pool, result.device].append(claim.key)
    for device, by in sorted(holders.items()):
        if len(by) > 1:
            yield f"device {'/'.join(device)} belongs to {' and '.join(sorted(by))}"


def _orphans(pods: list[Pod], claims: list[ResourceClaim]) -> Iterable[str]:
    uids = {pod.metadata.uid for pod in pods}
    for claim in claims:
        owner = controller_of(claim)
        if owner is not None and owner.kind == "Pod" and owner.uid not in uids:
            yield f"claim {claim.key} was made for pod {owner.name}, which is gone"
        for consumer in claim.status.reserved_for:
            if consumer.resource == "pods" and consumer.uid not in uids:
                yield f"claim {claim.key} is reserved for pod {consumer.name}, which is gone"


def _unready(pods: list[Pod]) -> Iterable[str]:
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None:
            yield f"pod {pod.key} is being deleted, and does not go"
        elif pod.spec.node_name and pod.status.phase not in ("Running", *_ENDED):
            yield f"pod {pod.key} is on {pod.spec.node_name} and does not run: {pod.status.phase or 'Pending'}"
