"""Status: the result of a plugin at an extension point (upstream's ``framework.Status``)."""

import enum
from dataclasses import dataclass, replace


class Code(enum.Enum):
    """The kind of result. The values are upstream's names (k8s.io/kube-scheduler/framework)."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


_REJECTED = {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's result. None in its place means success."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """All reasons in one line."""
        return ", ".join(self.reasons)

    @property
    def is_rejection(self) -> bool:
        """True if the pod was rejected, as opposed to an error."""
        return self.code in _REJECTED

    def of(self, plugin: str) -> "Status":
        """Return the status with the name of its plugin, unless it has one."""
        return self if self.plugin else replace(self, plugin=plugin)


def error(text: object) -> Status:
    """Return a status for an error. The pod is retried after a backoff."""
    return Status(Code.ERROR, (str(text),))


def unschedulable(*reasons: str) -> Status:
    """Return a status for a rejection that evicting other pods might resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a status for a rejection that evicting other pods does not resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


SKIP = Status(Code.SKIP)
