"""scheduling.k8s.io/v1 PriorityClass."""

from dra_shared.api.meta import Object


class PriorityClass(Object):
    description: str = ""
    global_default: bool | None = None
    preemption_policy: str | None = None
    value: int = 0
