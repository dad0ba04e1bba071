"""Nodes that are removed from a running cluster."""

import dataclasses
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from dra_kube.cluster import ServiceRecord
from dra_lab import nodes
from dra_worlds.fleet import Pool, pool

_AGENT = "node-agent-more"
_OLD, _NEW = ServiceRecord(pid=1, url=""), ServiceRecord(pid=2, url="")


class _Home:
    """A cluster whose record changes at each read, as while a supervisor restarts an agent."""

    logs = "logs"

    def __init__(self, agents: Iterable[ServiceRecord | None]) -> None:
        self._agents = list(agents)

    @property
    def count_remaining(self) -> int:
        return len(self._agents)

    def record(self) -> Any:
        agent = self._agents.pop(0)
        return SimpleNamespace(services={} if agent is None else {_AGENT: agent})


def _pool(*removed: str) -> Pool:
    made = pool({"name": "more", "count": 2}, "test")
    return dataclasses.replace(made, removed=removed)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_POLL", 0)


@pytest.mark.parametrize(
    ("removed", "agents"),
    [
        pytest.param(("more-0",), [_OLD, None, None, _NEW], id="until-the-agent-of-the-others-has-started"),
        pytest.param(("more-0", "more-1"), [_OLD, _NEW, None], id="until-there-is-no-agent"),
    ],
)
async def test_removing_a_node_waits_for_its_agent(
    removed: tuple[str, ...], agents: list[ServiceRecord | None]
) -> None:
    home: Any = _Home(agents)

    await nodes._wait_for_agent(home, "more-0", _OLD, _pool(*removed), 60)

    assert home.count_remaining == 0
