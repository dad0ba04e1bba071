"""Recorded conversations with real kube-apiservers 1.34.9 and 1.35.6, repeated step by step."""

import json
import re
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, Version

from tests.conformance.test_http_golden import NAMES, converse
from tests.conformance.test_versions import gates
from tests.support.reference import reference_path
from tests.support.sampling import sample

_COLUMN = re.compile(r": \.columnDefinitions\[\d+\]\.description: ")
# The configuration of each recorded server: all gates on and every version served, or the defaults.
_STARTS = {"http.json": "all", "http-default.json": "default", "http-rules-v1alpha3.json": "all"}
_CONVERSATIONS = [
    (version, file, name)
    for version in (V1_34, V1_35)
    for file in _STARTS
    for name in (["rules"] if "rules" in file else NAMES)
]


def _steps(version: Version, file: str, name: str) -> list[JsonObject]:
    conversations = json.loads(reference_path("reference", f"kubernetes-{version}", file).read_text())
    found: list[JsonObject] = conversations[name]
    return found


@pytest.mark.parametrize(("version", "file", "name"), sample(_CONVERSATIONS, 18), ids=str)
async def test_responses_equal_the_recorded_conversation(
    version: Version, file: str, name: str, tmp_path: Path
) -> None:
    start = _STARTS[file]
    config = Config(
        port=0,
        data=tmp_path,
        database=IN_MEMORY,
        runtime_config="api/all=true" if start == "all" else "",
        features=gates(version, start),
        disabled_plugins=frozenset({"ServiceAccount", "TaintNodesByCondition"}),
    )
    async with ApiServer(config) as server:
        failures = await converse(server, name, _steps(version, file, name))
    # Columns are described in our own words.
    assert [text for text in failures if not _COLUMN.search(text)] == []
