"""Fixtures: an API server that serves every version."""

from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.storage.catalog import IN_MEMORY


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, database=IN_MEMORY, runtime_config="api/all=true")


@pytest.fixture(autouse=True)
def requests_wait_for_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait longer for policies, whose compilation takes long on a slow machine."""
    monkeypatch.setattr("dra_apiserver.kinds.admissionregistration.dynamic.plugin._READY_TIMEOUT", 60.0)
