"""An API server that serves every version."""

from pathlib import Path

import pytest
from dra_apiserver.config import Config


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, relaxed=True, runtime_config="api/all=true")
