"""Stopping the containers of a pod (kuberuntime_container.go, kuberuntime_termination_order.go).

Within one grace period: first the main containers together, then sidecars, the last one first, because
others may need them. For each: the preStop hook, the signal, and the kill when the time is over.
"""

import asyncio

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.clock import Clock

from dra_node_agent.kubelet import messages
from dra_node_agent.kubelet.containers import EventSink, run_hook
from dra_node_agent.kubelet.restarts import is_sidecar
from dra_node_agent.runtime.base import PRE_STOP, ContainerRecord, Runtime, State

_SHORTEST_GRACE = 2.0


async def stop_containers(
    runtime: Runtime, clock: Clock, pod: Pod, grace: float, event: EventSink | None
) -> None:
    """Stop the pod's containers within ``grace`` seconds: main ones together, then each sidecar, the last one first."""
    deadline = clock.monotonic() + grace
    sidecars = [container for container in pod.spec.init_containers if is_sidecar(container)]
    others = [
        container
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        if not is_sidecar(container) or container in pod.spec.containers
    ]
    running = {
        record.name: record
        for record in runtime.containers()
        if record.pod_uid == pod.metadata.uid and record.state is State.RUNNING
    }
    await asyncio.gather(
        *(
            _stop(runtime, clock, container, running.pop(container.name), grace, event)
            for container in others
            if container.name in running
        )
    )
    for container in reversed(sidecars):
        if container.name in running:
            left = max(deadline - clock.monotonic(), 0.0)
            await _stop(runtime, clock, container, running.pop(container.name), left, event)
    # Containers that are not in the pod's spec.
    for record in running.values():
        await runtime.stop(record.id, 0)


async def _stop(
    runtime: Runtime,
    clock: Clock,
    container: Container,
    record: ContainerRecord,
    grace: float,
    event: EventSink | None,
) -> None:
    if event is not None:
        event("Normal", messages.KILLING, messages.stopping_container(container.name), container=container)
    lifecycle = container.lifecycle
    started = clock.monotonic()
    if lifecycle is not None and lifecycle.pre_stop is not None and grace > 0:
        work = asyncio.ensure_future(
            run_hook(
                runtime,
                clock,
                record.id,
                lifecycle.pre_stop,
                PRE_STOP,
                runtime.address(record.pod_uid),
                container,
            )
        )
        timer = asyncio.ensure_future(clock.sleep(grace))
        try:
            await asyncio.wait((work, timer), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (failure := work.result()) and event is not None:
                event("Warning", messages.FAILED_PRE_STOP, failure, container=container)
        finally:
            work.cancel()
            timer.cancel()
        # However long the hook took, the container gets a moment to react to its signal.
        grace = max(grace - (clock.monotonic() - started), _SHORTEST_GRACE)
    signal = lifecycle.stop_signal or "" if lifecycle is not None else ""
    await runtime.stop(record.id, grace, signal)
