"""Start of a container: image, configuration, devices and hooks (startContainer in kuberuntime_container.go)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dra_shared.api.container import Container, LifecycleHandler, Probe
from dra_shared.api.pod import Pod
from dra_shared.clock import Clock
from dra_shared.quoting import go_quote

from dra_node_agent.kubelet import messages
from dra_node_agent.kubelet.cgroups import Cgroups
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager
from dra_node_agent.kubelet.devicemanager.types import DeviceError, DeviceRunContainerOptions
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.environment import ConfigError, Sources, environment, expand
from dra_node_agent.kubelet.restarts import is_sidecar
from dra_node_agent.kubelet.volumes import container_mounts
from dra_node_agent.runtime.base import (
    BAD_STATUS,
    POST_START,
    ContainerRecord,
    ContainerSpec,
    DeviceNode,
    Mount,
    PluginDevices,
    Runtime,
    RuntimeFailure,
)
from dra_node_agent.tasks import Tasks

# The timeout of an HTTP hook without a grace period.
_HOOK_SECONDS = 600


class EventSink(Protocol):
    """Writes an event about a pod or one of its containers."""

    def __call__(
        self, type_: str, reason: str, message: str, /, *, container: Container | None = None
    ) -> None: ...


class ContainerStarter:
    """Starts the containers of one node's pods."""

    def __init__(
        self,
        runtime: Runtime,
        dra: DraManager,
        devices: DeviceManager,
        sources: Sources,
        clock: Clock,
        *,
        node_name: str,
        host_ip: str,
        cgroups: Cgroups,
    ) -> None:
        self._runtime = runtime
        self._dra = dra
        self._devices = devices
        self._sources = sources
        self._clock = clock
        self._node_name = node_name
        self._host_ip = host_ip
        self._cgroups = cgroups
        self.tasks = Tasks()

    def records(self, pod_uid: str) -> Sequence[ContainerRecord]:
        """Return the pod's containers, running and exited."""
        return [record for record in self._runtime.containers() if record.pod_uid == pod_uid]

    async def start(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        volumes: Mapping[str, Path],
        pod_ip: str,
        event: EventSink,
        *,
        init: bool,
    ) -> None:
        """Start one attempt of the container.

        Raises:
            RuntimeFailure: it could not be started; an event has already been recorded.
        """
        await self._pull(container, event)
        try:
            spec = await self._spec(pod, container, attempt, volumes, pod_ip, init=init)
        except (ConfigError, DraError, DeviceError) as error:
            event("Warning", messages.FAILED, f"Error: {error}", container=container)
            raise RuntimeFailure("CreateContainerConfigError", str(error)) from error
        try:
            container_id = await self._runtime.run(spec)
        except RuntimeFailure as error:
            event("Warning", messages.FAILED, f"Error: {error}", container=container)
            raise
        event("Normal", messages.CREATED, "Container created", container=container)
        event("Normal", messages.STARTED, "Container started", container=container)
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is not None:
            failure = await run_hook(
                self._runtime, self._clock, container_id, hook, POST_START, pod_ip, container
            )
            if failure:
                # The output of the hook may be secret, so it is in the status but not in the events.
                event("Warning", messages.FAILED_POST_START, "PostStartHook failed", container=container)
                event("Normal", messages.KILLING, messages.FAILED_POST_START, container=container)
                await self._runtime.stop(container_id, float(pod.spec.termination_grace_period_seconds or 0))
                raise RuntimeFailure("PostStartHookError", _hook_failed(hook, container, pod, failure))

    async def _pull(self, container: Container, event: EventSink) -> None:
        policy = container.image_pull_policy or "IfNotPresent"
        try:
            image = await self._runtime.pull(container.image, policy)
        except RuntimeFailure as error:
            if error.reason == "InvalidImageName":
                event("Warning", messages.INSPECT_FAILED, str(error), container=container)
            elif error.reason == messages.NEVER_PULL:
                event("Warning", messages.NEVER_PULL, str(error), container=container)
            else:
                event(
                    "Normal", messages.PULLING, messages.pulling_image(container.image), container=container
                )
                event(
                    "Warning",
                    messages.FAILED_PULL,
                    f'Failed to pull image "{container.image}": {error}',
                    container=container,
                )
            event("Warning", messages.FAILED_PULL, f"Error: {error.reason}", container=container)
            raise
        if image.pulled_seconds is None:
            event("Normal", messages.PULLED, messages.image_present(container.image), container=container)
            return
        event("Normal", messages.PULLING, messages.pulling_image(container.image), container=container)
        text = messages.pulled_image(container.image, image.pulled_seconds, image.size)
        event("Normal", messages.PULLED, text, container=container)

    async def _spec(
        self,
        pod: Pod,
        container: Container,
        attempt: int,
        volumes: Mapping[str, Path],
        pod_ip: str,
        *,
        init: bool,
    ) -> ContainerSpec:
        cdi_device_ids = self._dra.containers.cdi_device_ids(pod, container)
        devices = await self._devices.run_container_options(pod, container) or DeviceRunContainerOptions()
        env = await environment(pod, container, self._sources, pod_ip, self._host_ip, self._node_name)
        meta = pod.metadata
        security = container.security_context
        return ContainerSpec(
            namespace=meta.namespace,
            pod=meta.name,
            pod_uid=meta.uid,
            name=container.name,
            attempt=attempt,
            image=container.image,
            init=init,
            command=[expand(word, env) for word in container.command],
            args=[expand(word, env) for word in container.args],
            env={**devices.envs, **env},
            working_dir=container.working_dir,
            hostname=pod.spec.hostname or meta.name,
            mounts=container_mounts(pod, container, volumes, env),
            cdi_device_ids=[*cdi_device_ids, *devices.cdi_devices],
            devices=plugin_devices(devices),
            annotations=meta.annotations,
            limits=self._cgroups.limits(pod, container),
            requests=container.resources.requests,
            resources=self._cgroups.of_container(pod, container),
            host_network=bool(pod.spec.host_network),
            privileged=bool(security and security.privileged),
            user=str(security.run_as_user) if security and security.run_as_user is not None else "",
            tty=bool(container.tty),
            to_end=_is_to_end(pod, container, init=init),
            stop_signal=container.lifecycle.stop_signal or "" if container.lifecycle else "",
        )


def plugin_devices(options: DeviceRunContainerOptions) -> PluginDevices:
    """Convert the answers of device plugins to the runtime's form."""
    return PluginDevices(
        nodes=tuple(
            DeviceNode(device.path_in_container, device.path_on_host, device.permissions)
            for device in options.devices.values()
        ),
        mounts=tuple(
            Mount(mount.container_path, mount.host_path, mount.read_only) for mount in options.mounts.values()
        ),
        annotations=options.annotations,
    )


def _is_to_end(pod: Pod, container: Container, *, init: bool) -> bool:
    if init:
        return not is_sidecar(container)
    return (container.restart_policy or pod.spec.restart_policy or "Always") != "Always"


def _hook_failed(hook: LifecycleHandler, container: Container, pod: Pod, failure: str) -> str:
    meta = pod.metadata
    whose = f'for Container "{container.name}" in Pod "{meta.name}_{meta.namespace}({meta.uid})"'
    if hook.exec is not None:
        _, _, output = failure.partition(": ")
        command = f"Exec lifecycle hook ([{' '.join(hook.exec.command)}])"
        return f"{command} {whose} failed - error: {failure}, message: {go_quote(output)}"
    if hook.http_get is not None:
        return f"HTTP lifecycle hook ({hook.http_get.path}) {whose} failed - error: {failure}"
    return f"Cannot run handler: {failure}"


async def run_hook(
    runtime: Runtime,
    clock: Clock,
    container_id: str,
    hook: LifecycleHandler,
    kind: str,
    pod_ip: str,
    container: Container,
) -> str:
    """Run the lifecycle hook ``kind``. Return the text of its failure, or an empty string.

    As in pkg/kubelet/lifecycle, any response to an HTTP hook is a success, and TCP hooks are not supported.
    """
    if hook.sleep is not None:
        await clock.sleep(hook.sleep.seconds)
    if hook.exec is not None:
        try:
            code, output = await runtime.exec(container_id, hook.exec.command)
        except RuntimeFailure as error:
            return str(error)
        if code:
            text = output.decode(errors="replace")
            return f"command '{' '.join(hook.exec.command)}' exited with {code}: {text}"
    if hook.http_get is not None:
        request = Probe(http_get=hook.http_get, timeout_seconds=_HOOK_SECONDS)
        answered, problem = await runtime.probe(container_id, kind, request, pod_ip, container)
        if not answered and not problem.startswith(BAD_STATUS):
            return problem
    if hook.tcp_socket is not None:
        return "invalid handler: TCP is not supported in lifecycle hooks"
    return ""
