"""Fixtures for the tests of the kubelet."""

import pytest
from dra_node_agent.kubelet.registration import registrar


@pytest.fixture(autouse=True)
def _slow_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the time limit for plugin registration.

    After a second the kubelet would retry on a clock that tests do not advance meanwhile.
    """
    for name in ("_INFO_TIMEOUT", "_NOTIFY_TIMEOUT"):
        monkeypatch.setattr(registrar, name, 60.0)
