"""What a pod that has a node still waits for."""

from collections.abc import Iterator

from dra_shared.api.node import Node
from dra_shared.api.pod import Pod


def waits_for(pod: Pod, node: Node | None) -> tuple[str, ...]:
    """Why the pod does not run, as far as its status and its node show; empty: it runs, or has run."""
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
