"""The reasons why a pod that has a node does not run yet."""

from collections.abc import Iterable, Iterator

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim


def waits_for(pod: Pod, node: Node | None) -> tuple[str, ...]:
    """Return the reasons why the pod does not run, from its status and its node. Empty if it runs or has run."""
    if pod.status.phase not in ("", "Pending"):
        return ()
    return tuple(dict.fromkeys(_reasons(pod, node)))


def _reasons(pod: Pod, node: Node | None) -> Iterator[str]:
    name = pod.spec.node_name
    if node is None:
        yield f"node {name} does not exist"
        return
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        yield f"node {name} is not ready: {ready.reason or ready.status}"
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    if not statuses:
        yield f"the kubelet of node {name} has reported nothing yet"
    for status in statuses:
        waiting = status.state.waiting if status.state is not None else None
        if waiting is not None:
            message = f": {waiting.message}" if waiting.message else ""
            yield f"container {status.name}: {waiting.reason or 'waiting'}{message}"
    sandbox = next((c for c in pod.status.conditions if c.type == "PodReadyToStartContainers"), None)
    if statuses and pod.spec.resource_claims and sandbox is not None and sandbox.status != "True":
        yield "the kubelet has not prepared the claims, or not made the sandbox yet"


def binding_waits(claims: Iterable[ResourceClaim]) -> tuple[str, ...]:
    """Return the binding conditions that are not true yet, and the failure conditions that are true."""
    return tuple(text for claim in claims for text in _conditions(claim))


def _conditions(claim: ResourceClaim) -> Iterator[str]:
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        device = result.driver, result.pool, result.device
        status = next((s for s in claim.status.devices if (s.driver, s.pool, s.device) == device), None)
        known = {each.type: each for each in status.conditions} if status is not None else {}
        where = f"device {'/'.join(device)} of claim {claim.key}"
        for name in result.binding_failure_conditions:
            if name in known and known[name].status == "True":
                why = ": ".join(filter(None, (known[name].reason, known[name].message)))
                yield f"{where}: binding failure condition {name} is true" + (f": {why}" if why else "")
        for name in result.binding_conditions:
            if name not in known:
                yield f"{where}: driver {result.driver} has not set binding condition {name}"
            elif known[name].status != "True":
                yield f"{where}: binding condition {name} is {known[name].status}: {known[name].reason}"
