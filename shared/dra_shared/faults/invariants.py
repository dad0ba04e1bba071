"""What must hold of a cluster at rest, regardless of what happened before.

No device belongs to two claims, nothing refers to what is gone, and every pod runs that could. This is asked of the API
server alone, and of the scheduler for pods that wait.
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


def broken(pods: Iterable[Pod], claims: Iterable[ResourceClaim], fitting: Iterable[str] = ()) -> list[str]:
    """One line for each breach; ``fitting`` are the keys of waiting pods that the scheduler has a node for."""
    known = list(pods)
    owned = list(claims)
    return [
        *devices_twice(owned),
        *_orphans(known, owned),
        *(f"pod {pod} waits, and a node could take it" for pod in sorted(fitting)),
        *_unready(known),
    ]


def leaked(files: Iterable[Path], claims: Iterable[ResourceClaim]) -> list[str]:
    """One line for each CDI file of a claim that is gone or was given back; those of no one claim bear no UID."""
    held = {claim.metadata.uid for claim in claims if claim.status.allocation is not None}
    found = ((path, _UID.search(path.stem)) for path in files)
    return [
        f"CDI file {path} is of a claim that is gone"
        for path, match in sorted(found, key=lambda one: one[0])
        if match is not None and match[0] not in held
    ]


def waiting(pods: Iterable[Pod]) -> list[Pod]:
    """The pods without a node."""
    return [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]


def devices_twice(claims: list[ResourceClaim]) -> Iterable[str]:
    """One line for each device that two claims have, and that is neither shared nor an administrator's."""
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
