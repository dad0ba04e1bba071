"""Events about one pod and its containers (pkg/kubelet/container/ref.go, GenerateContainerRef)."""

from collections.abc import Callable

import msgspec
from dra_shared.api.container import Container
from dra_shared.api.pod import ObjectReference, Pod
from dra_shared.api.resources import PODS
from dra_shared.client.events import Recorder, reference


class PodEvents:
    """Records events about the pod that ``current`` returns."""

    def __init__(self, recorder: Recorder, current: Callable[[], Pod]) -> None:
        self._recorder = recorder
        self._current = current

    def __call__(
        self, type_: str, reason: str, message: str, /, *, container: Container | None = None
    ) -> None:
        """Record an event about the pod, or about its ``container``."""
        pod = self._current()
        ref: ObjectReference = reference(PODS, pod)
        if container is not None:
            ref = msgspec.structs.replace(ref, field_path=_field_path(pod, container))
        self._recorder.event(ref, type_, reason, message)


def _field_path(pod: Pod, container: Container) -> str:
    field = "initContainers" if container in pod.spec.init_containers else "containers"
    if any(container.name == entry.name for entry in pod.spec.ephemeral_containers):
        field = "ephemeralContainers"
    return f"spec.{field}{{{container.name}}}"
