"""Test which endpoint of a webhook's service is called."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dra_apiserver.api import Api
from dra_apiserver.webhook import Calls
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

_SERVICE: JsonObject = {"name": "hook", "namespace": "default"}


def create_calls(version: Version, ready: list[str]) -> Calls:
    """Return calls that choose the last endpoint. ``ready`` are the addresses of the service's endpoints."""

    def list_slices(*_: Any) -> list[bytes]:
        metadata = {"labels": {"kubernetes.io/service-name": "hook"}}
        endpoints = [{"addresses": [address]} for address in ready]
        slice_ = {"metadata": metadata, "ports": [{"port": 9443}], "endpoints": endpoints}
        return [json.dumps(slice_).encode()]

    api = SimpleNamespace(
        features=FeatureGates(version),
        lookup=lambda *_: {"spec": {"ports": [{"port": 443}]}},
        listing=list_slices,
    )
    return Calls(cast("Api", api), choose=lambda addresses: addresses[-1])


@pytest.mark.parametrize(("version", "second"), [(V1_36, "10.0.0.1"), (V1_37, "10.0.0.2")])
def test_each_webhook_call_chooses_an_endpoint_of_the_service_since_1_37(
    version: Version, second: str
) -> None:
    ready = ["10.0.0.1"]
    calls = create_calls(version, ready)
    assert calls._resolve(_SERVICE, 443) == "10.0.0.1:9443"
    ready.append("10.0.0.2")
    assert calls._resolve(_SERVICE, 443) == f"{second}:9443"
    del ready[0]
    assert calls._resolve(_SERVICE, 443) == "10.0.0.2:9443"
