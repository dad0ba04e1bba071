"""Which faults there are: what each does, and what Kubernetes promises to those who live through it.

The promises are those of upstream's documentation: API concepts (retries, conflicts, resumed watches) and the design of
controllers, which act on what they read and so continue where another instance, or they themselves, stopped.
"""

from dataclasses import dataclass

API_SERVER = "apiserver"
#: Where a fault of processes can strike.
SERVICES = (API_SERVER, "scheduler", "controller", "node-agent")


@dataclass(frozen=True)
class Kind:
    """One fault; ``of_process`` says whether it strikes a service's process, and not requests."""

    name: str
    what: str
    promise: str
    of_process: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "latency",
            "requests to the API server wait --delay seconds",
            "clients wait; nothing is lost, and nothing is done twice",
        ),
        Kind(
            "error",
            "the API server answers --code (429, 500, 503, 504)",
            "clients try again, later each time; all that was wanted happens in the end",
        ),
        Kind(
            "conflict",
            "updates and patches are answered with 409",
            "clients read again and decide again; no change of another is overwritten",
        ),
        Kind(
            "watch-cut",
            "open watches end, again every --delay seconds",
            "watches resume where they ended: each event once, in order",
        ),
        Kind(
            "stop",
            "a service's process stands still, as on a machine without memory",
            "what runs keeps running; what waits continues when it is back",
            of_process=True,
        ),
        Kind(
            "kill",
            "a service's process is killed without warning (SIGKILL), and started again",
            "it continues from what is stored; what was answered is not lost",
            of_process=True,
        ),
    )
}
