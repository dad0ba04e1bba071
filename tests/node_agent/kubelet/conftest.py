"""What the tests of the kubelet share."""

import pytest
from dra_node_agent.kubelet.registration import registrar


@pytest.fixture(autouse=True)
def _slow_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin has as long as it takes to introduce itself.

    After a second the kubelet would try again later, on a clock that tests do not move meanwhile.
    """
    for name in ("_INFO_TIMEOUT", "_NOTIFY_TIMEOUT"):
        monkeypatch.setattr(registrar, name, 60.0)
