"""Objects of a running cluster are listed in the version of the API that it serves."""

import asyncio
import json

import httpx
from dra_shared.api.resources import DEVICE_TAINT_RULES
from dra_shared.client.rest import Client
from dra_worlds.live import list_objects


class _Serving(Client):
    """A client of an API server that serves DeviceTaintRules in one version, and no other objects."""

    def __init__(self, version: str) -> None:
        self._version = version

    base_url = "http://127.0.0.1"

    async def raw(self, method: str, path: str, **more: object) -> httpx.Response:
        if not path.endswith("/devicetaintrules"):
            return httpx.Response(200, text='{"items": []}')
        if path != f"/apis/resource.k8s.io/{self._version}/devicetaintrules":
            return httpx.Response(404)
        return httpx.Response(200, text=json.dumps({"items": [{"metadata": {"name": "broken"}}]}))


def test_taint_rules_are_read_in_the_served_version() -> None:
    for version in ("v1", "v1beta2", "v1alpha3"):
        problems: list[str] = []
        found = dict(asyncio.run(list_objects(_Serving(version), problems)))
        (rule,) = found[DEVICE_TAINT_RULES]
        assert rule.api_version == f"resource.k8s.io/{version}"
        assert problems == []
