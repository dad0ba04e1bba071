"""The kinds of faults: the effect of each, and the promises of Kubernetes to its clients.

The promises are those of upstream's documentation: API concepts (retries, conflicts, resumed watches), and
the design of controllers. They act on the state that they read, and so continue the work of a previous
instance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: Where services take faults.
PATH = "/faults"
API_SERVER = "apiserver"
#: Where a fault of processes can strike.
SERVICES = (API_SERVER, "scheduler", "controller", "node-agent")


#: What a fault strikes: requests to the API server, a service's process, a node, or the scheduling itself.
Where = Literal["requests", "process", "node", "scheduling"]


#: What a service's requests have in their User-Agent: the network between it and the API server.
AGENTS: Mapping[str, str] = {name: f"dralab-{name}" for name in SERVICES if name != API_SERVER}
#: The User-Agent of who strikes and looks, whom no fault meets: it would meet itself.
OBSERVER = "dralab-fault"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

_OF_REQUESTS = ("agents", "resources", "seed", "service", "share", "verbs")
#: The fields that a request may have besides ``fault`` and ``seconds``, where they are not those of all of its sort.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "latency": ("delay", *_OF_REQUESTS),
    "error": ("code", *_OF_REQUESTS),
    "watch-cut": ("delay",),
    "watch-behind": ("delay",),
    "xid": ("gpu", "node", "xid"),
    "driver-slow": ("delay", "driver", "node"),
    "clock-ahead": ("ahead", "node"),
    **dict.fromkeys(("ecc", "gpu-lost", "mig-changed", "memory-full"), ("gpu", "node")),
    **dict.fromkeys(
        ("driver-crash", "driver-hang", "driver-wrong", "driver-gone", "driver-reset", "driver-old"),
        ("driver", "node"),
    ),
}
_OPTIONS_OF_ALL: Mapping[Where, tuple[str, ...]] = {
    "requests": _OF_REQUESTS,
    "process": ("service",),
    "node": ("node",),
    "scheduling": (),
}


@dataclass(frozen=True)
class Kind:
    """One fault."""

    name: str
    what: str
    promise: str
    where: Where = "requests"

    @property
    def options(self) -> tuple[str, ...]:
        """The fields that a request may have, besides its name and ``seconds``."""
        return _OPTIONS.get(self.name, _OPTIONS_OF_ALL[self.where])

    @property
    def lasts(self) -> bool:
        """True if the fault has a duration. Killing a process has none."""
        return self.name != "kill"


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
            "watch-behind",
            "watches are behind: events come every --delay seconds only",
            "clients act on what they know, and what is out of date is refused; nothing is done twice",
        ),
        Kind(
            "stop",
            "a service's process stands still, as on a machine without memory",
            "what runs keeps running; what waits continues when it is back",
            "process",
        ),
        Kind(
            "kill",
            "a service's process is killed without warning (SIGKILL), and started again",
            "it continues from what is stored; what was answered is not lost",
            "process",
        ),
        Kind(
            "reset",
            "the network cuts connections to the API server: a request is lost, or its answer",
            "clients try again; what was done already is found and not done twice",
        ),
        Kind(
            "loss",
            "the network loses requests to the API server: no answer comes until it is over",
            "clients wait or give up and try again; nothing is done twice",
        ),
        Kind(
            "two-schedulers",
            "a second scheduler works without leader election",
            "no device goes to two claims and no pod to two nodes: the later write is refused",
            "scheduling",
        ),
        Kind(
            "xid",
            "a GPU reports critical error --xid (79)",
            "the driver taints the device, and no new claim gets it; the others are as before",
            "node",
        ),
        Kind(
            "ecc",
            "a GPU counts an uncorrectable memory error",
            "the driver goes on; claims and pods are as before",
            "node",
        ),
        Kind(
            "gpu-lost",
            "a GPU falls off the bus, and comes back",
            "the driver cannot know which, and taints all of the node's; new claims get them when it is back",
            "node",
        ),
        Kind(
            "mig-changed",
            "the MIG devices of a GPU go behind the driver's back, and come back",
            "drivers do not look again: claims and pods are as before, and programs find no device",
            "node",
        ),
        Kind(
            "memory-full",
            "a program that Kubernetes does not know fills a GPU's memory",
            "DRA does not look at use: claims and pods are as before",
            "node",
        ),
        Kind(
            "driver-crash",
            "a DRA driver ends, and is started again",
            "what runs keeps running; what is to be prepared waits; slices are back with the driver",
            "node",
        ),
        Kind(
            "driver-hang",
            "calls to a driver do not return",
            "the kubelet gives up after 45 seconds and calls again; other drivers' pods start",
            "node",
        ),
        Kind(
            "driver-slow",
            "calls to a driver take --delay seconds (2)",
            "pods start later; no claim is prepared twice",
            "node",
        ),
        Kind(
            "driver-wrong",
            "a driver's answers lack the claims that they are about",
            "no container starts without its devices; the kubelet calls again",
            "node",
        ),
        Kind(
            "driver-gone",
            "a driver's socket is gone",
            "pods wait for it with an event, and start when it is back",
            "node",
        ),
        Kind(
            "driver-reset",
            "a driver does its work, and its answers are lost",
            "the kubelet calls again; the driver gives the same answer and prepares nothing twice",
            "node",
        ),
        Kind(
            "driver-old",
            "a driver is spoken to as one of before Kubernetes 1.34, which has v1beta1 alone",
            "pods get the same; what was prepared in one version is unprepared in the other",
            "node",
        ),
        Kind(
            "kubelet-stop",
            "a kubelet ends, and is started again",
            "containers go on; what is prepared is found in its checkpoint",
            "node",
        ),
        Kind(
            "checkpoint-lost",
            "a kubelet starts again without its checkpoint of claims, which is found later",
            "containers go on; drivers keep what they prepared until the kubelet knows of it again",
            "node",
        ),
        Kind(
            "checkpoint-corrupt",
            "a kubelet's checkpoint of claims is damaged, and repaired later",
            "the kubelet does not start with it, and no device leaks; containers go on",
            "node",
        ),
        Kind(
            "disk-full",
            "nothing can be written to a node's disk",
            "pods wait with an event; nothing is prepared that no checkpoint knows",
            "node",
        ),
        Kind(
            "node-silent",
            "a node does not report: no status, no lease",
            "after 40 seconds it is NotReady and gets no pods; then its pods have as long as they tolerate",
            "node",
        ),
        Kind(
            "node-gone",
            "a Node object is deleted, and its kubelet registers it again later",
            "its slices go with it and come back; its pods are deleted if it stays away",
            "node",
        ),
        Kind(
            "clock-ahead",
            "a node's clock is ahead by --ahead seconds (300)",
            "others measure by their own clocks: the node stays Ready, and nothing is evicted",
            "node",
        ),
    )
}
