"""Invariants of a cluster at rest, regardless of earlier events.

No device belongs to two claims, no object refers to a missing one, and every pod runs that can run. Only the
API server is read, and the scheduler for pending pods.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import controller_of

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENDED = ("Succeeded", "Failed")


def find_breaches(
    pods: Iterable[Pod], claims: Iterable[ResourceClaim], fitting: Iterable[str] = ()
) -> list[str]:
    """Return one line for each violated invariant. ``fitting`` are the keys of pending pods that fit on a node."""
    known = list(pods)
    owned = list(claims)
    return [
        *devices_twice(owned),
        *_orphans(known, owned),
        *(f"pod {pod} waits, and a node could take it" for pod in sorted(fitting)),
        *_unready(known),
    ]


def find_leaked_files(files: Iterable[Path], claims: Iterable[ResourceClaim]) -> list[str]:
    """Return one line for each CDI file whose claim was deleted or deallocated.

    Files without a claim's UID are skipped.
    """
    held = {claim.metadata.uid for claim in claims if claim.status.allocation is not None}
    found = ((path, _UID.search(path.stem)) for path in files)
    return [
        f"CDI file {path} is of a claim that is gone"
        for path, match in sorted(found, key=lambda one: one[0])
        if match is not None and match[0] not in held
    ]


def pending_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods without a node."""
    return [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]


def devices_twice(claims: list[ResourceClaim]) -> Iterable[str]:
    """Yield one line for each device that two claims have, unless it is shared or for admin access."""
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
