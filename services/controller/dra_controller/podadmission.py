"""Admission of the pods that controllers create. It replaces the pod webhooks of operators."""

from collections.abc import Callable

from dra_shared.api.meta import Status
from dra_shared.api.pod import Pod
from dra_shared.client.errors import Forbidden


class PodAdmission:
    """Functions that change a pod before a controller creates it, or refuse it.

    They are called for pods of the Job and StatefulSet controllers, which create the pods of the job kinds.
    """

    def __init__(self) -> None:
        self._hooks: list[Callable[[Pod], Pod]] = []

    def add(self, hook: Callable[[Pod], Pod]) -> None:
        """Call the function for each new pod.

        It returns the pod, possibly changed, or raises :func:`refuse`'s error.
        """
        self._hooks.append(hook)

    def admit(self, pod: Pod) -> Pod:
        """Return the pod to create.

        Raises:
            ApiError: a function refuses it.
        """
        for hook in self._hooks:
            pod = hook(pod)
        return pod


def refuse(webhook: str, message: str) -> Forbidden:
    """Return the error of an API server whose webhook refuses an object."""
    text = f'admission webhook "{webhook}" denied the request: {message}'
    return Forbidden(Status(status="Failure", reason="Forbidden", code=403, message=text))
