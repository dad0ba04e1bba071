"""The state machines that the code declares, in the form of pages in docs/."""

from collections.abc import Callable, Mapping
from functools import partial

from dra_node_agent.kubelet.dra.phases import PREPARE, UNPREPARE
from dra_node_agent.kubelet.lifecycle import LIFECYCLE
from dra_shared.client.leader import ROLES
from dra_shared.states import markdown

TABLES: Mapping[str, Callable[[], str]] = {
    "states of a pod": partial(markdown, LIFECYCLE),
    "states of preparing claims": partial(markdown, PREPARE),
    "states of unpreparing claims": partial(markdown, UNPREPARE),
    "states of leader election": partial(markdown, ROLES),
}
