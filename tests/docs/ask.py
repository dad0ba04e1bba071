"""Start an API server, send it the requests on stdin and print the responses."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import dra_apiserver
import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, Version


async def ask(
    requests: list[tuple[str, str, dict[str, str], Any]], gates: FeatureGates
) -> list[tuple[int, Any]]:
    """Return the responses of a new API server to the requests, in order."""
    answers = []
    with tempfile.TemporaryDirectory() as data:
        config = Config(
            port=0, data=Path(data), database=IN_MEMORY, runtime_config="api/all=true", features=gates
        )
        async with (
            ApiServer(config) as server,
            httpx.AsyncClient(base_url=server.url, timeout=30) as client,
        ):
            for method, path, headers, body in requests:
                response = await client.request(method, path, headers=headers, json=body)
                json_ = response.headers["content-type"].startswith("application/json")
                answers.append((response.status_code, response.json() if json_ else response.text))
    return answers


if __name__ == "__main__":
    followed = Version.parse(sys.argv[1]) if sys.argv[1:] else DEFAULT
    made = asyncio.run(ask(json.load(sys.stdin), FeatureGates(followed)))
    sys.stdout.write(json.dumps({"package": dra_apiserver.__path__[0], "answers": made}) + "\n")
