"""Status: what a plugin returns at an extension point (upstream's ``framework.Status``)."""

import enum
from dataclasses import dataclass, replace


class Code(enum.Enum):
    """How it went; the values are upstream's names (k8s.io/kube-scheduler/framework)."""

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
    """A plugin's answer; None in its place stands for success."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """All reasons in one line."""
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        """Whether the pod was turned away, as opposed to something having gone wrong."""
        return self.code in _REJECTED

    def of(self, plugin: str) -> "Status":
        """The same answer, with the plugin that gave it."""
        return self if self.plugin else replace(self, plugin=plugin)


def error(text: object) -> Status:
    """Something went wrong; the pod is tried again after a back-off."""
    return Status(Code.ERROR, (str(text),))


def unschedulable(*reasons: str) -> Status:
    """Not now, though evicting other pods might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Not now, and evicting other pods won't help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


SKIP = Status(Code.SKIP)
