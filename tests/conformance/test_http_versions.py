"""Conversations that real kube-apiservers 1.34.9 and 1.35.6 had, all their gates on, step by step, with ours."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.version import V1_34, V1_35, Version

from tests.conformance.test_http_golden import NAMES, Step, converse
from tests.conformance.test_versions import gates
from tests.support.reference import reference_path

_RECORDED = (V1_34, V1_35)
_COLUMN = re.compile(r": \.columnDefinitions\[\d+\]\.description: ")


@pytest.fixture(params=_RECORDED, ids=str)
def version(request: pytest.FixtureRequest) -> Version:
    found: Version = request.param
    return found


@pytest.fixture
async def server(version: Version, tmp_path: Path) -> AsyncIterator[ApiServer]:
    features = gates(version, "all")
    config = Config(
        port=0,
        data=tmp_path,
        relaxed=True,
        runtime_config="api/all=true",
        features=features,
        disabled_plugins=frozenset({"ServiceAccount", "TaintNodesByCondition"}),
    )
    async with ApiServer(config) as started:
        yield started


def _steps(version: Version, name: str) -> list[Step]:
    conversations = json.loads(reference_path("reference", f"kubernetes-{version}", "http.json").read_text())
    found: list[Step] = conversations[name]
    return found


@pytest.mark.parametrize("name", NAMES)
async def test_conversation(name: str, version: Version, server: ApiServer) -> None:
    failures = await converse(server, name, _steps(version, name))
    # Columns are described in our own words.
    assert [text for text in failures if not _COLUMN.search(text)] == []
