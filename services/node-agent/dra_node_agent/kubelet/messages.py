"""Reasons and messages of the kubelet's events on pods and nodes, as upstream words them.

Mirrors pkg/kubelet/events/event.go, and the texts in pkg/kubelet/images and pkg/kubelet/kuberuntime.
"""

from dra_shared.durations import Duration

PULLING, PULLED, FAILED_PULL = "Pulling", "Pulled", "Failed"
CREATED, STARTED, FAILED, KILLING, BACK_OFF = "Created", "Started", "Failed", "Killing", "BackOff"
UNHEALTHY = "Unhealthy"
INSPECT_FAILED = "InspectFailed"
NEVER_PULL = "ErrImageNeverPull"
FAILED_PREPARE = "FailedPrepareDynamicResources"
FAILED_MOUNT = "FailedMount"
FAILED_SANDBOX = "FailedCreatePodSandBox"
SANDBOX_CHANGED = "SandboxChanged"
SANDBOX_CHANGED_TEXT = "Pod sandbox changed, it will be killed and re-created."
FAILED_POST_START, FAILED_PRE_STOP = "FailedPostStartHook", "FailedPreStopHook"


def pulling_image(image: str) -> str:
    return f'Pulling image "{image}"'


def pulled_image(image: str, seconds: float, size: int) -> str:
    took = _duration(seconds)
    return (
        f'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: {size} bytes.'
    )


def image_present(image: str) -> str:
    return f'Container image "{image}" already present on machine and can be accessed by the pod'


def stopping_container(container: str) -> str:
    return f"Stopping container {container}"


def liveness_failed(container: str) -> str:
    return f"Container {container} failed liveness probe, will be restarted"


def startup_failed(container: str) -> str:
    return f"Container {container} failed startup probe, will be restarted"


def backing_off(container: str, pod: str) -> str:
    return f"Back-off restarting failed container {container} in pod {pod}"


def back_off_waiting(delay: float, container: str, pod: str) -> str:
    return f"back-off {_duration(delay)} restarting failed container={container} pod={pod}"


def _duration(seconds: float) -> str:
    return str(Duration(round(seconds * 1000) * 1_000_000))
