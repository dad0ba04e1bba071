import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_shared.api.resources import NODES

from tests.support.fakeapi import FakeApi


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="nd") as directory:
        yield Path(directory)


@pytest.fixture
def api() -> FakeApi:
    """Return an API server with a node."""
    fake = FakeApi()
    fake.put(NODES, {"metadata": {"name": "node-0"}})
    return fake
