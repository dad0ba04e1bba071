"""Test that watches that begin with the current objects are compressed since 1.37 (WatchListCompression)."""

import json
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared.features import FeatureGates
from dra_shared.version import V1_36, V1_37

_MAPS = "/api/v1/namespaces/default/configmaps"
_BOOKMARKS = {"watch": "1", "timeoutSeconds": "60", "allowWatchBookmarks": "true"}
_INITIAL = {**_BOOKMARKS, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


async def _types(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the types of the events of a stream of gzip members, each as soon as it can be decompressed."""
    member = zlib.decompressobj(zlib.MAX_WBITS + 16)
    text = b""
    async for chunk in chunks:
        while chunk:
            text += member.decompress(chunk)
            chunk = member.unused_data
            if member.eof:
                member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        *lines, text = text.split(b"\n")
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            yield event["type"]


async def _create(client: httpx.AsyncClient, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"of": "test"}}}
    assert (await client.post(_MAPS, json=body)).status_code == 201


async def _read_encoding(client: httpx.AsyncClient, accepted: str, **parameters: str) -> str | None:
    async with client.stream(
        "GET", _MAPS, params=parameters, headers={"Accept-Encoding": accepted}
    ) as answer:
        assert answer.status_code == 200
        encoding: str | None = answer.headers.get("content-encoding")
        return encoding


async def test_each_event_of_a_compressed_watch_can_be_read_at_once(client: httpx.AsyncClient) -> None:
    await _create(client, "first")
    wanted = {**_INITIAL, "labelSelector": "of=test"}
    async with client.stream("GET", _MAPS, params=wanted, headers={"Accept-Encoding": "gzip"}) as answer:
        assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
        types = _types(answer.aiter_raw())
        assert [await anext(types), await anext(types)] == ["ADDED", "BOOKMARK"]
        await _create(client, "second")
        assert await anext(types) == "ADDED"


async def test_each_compressed_part_ends_with_an_empty_block(client: httpx.AsyncClient) -> None:
    # Go's reader returns the data of a last block only when the next member arrives, so its informers would
    # never see the bookmark that ends the initial events.
    async with client.stream("GET", _MAPS, params=_INITIAL, headers={"Accept-Encoding": "gzip"}) as answer:
        chunks = answer.aiter_raw()
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        text = b""
        while b"BOOKMARK" not in text:
            before, after = (await anext(chunks)).rsplit(b"\x00\x00\xff\xff", 1)
            text += member.decompress(before + b"\x00\x00\xff\xff")
            assert (text[-1:], member.eof) == (b"\n", False)
            assert (member.decompress(after), member.eof) == (b"", True)


async def test_watches_that_do_not_begin_with_the_current_objects_are_not_compressed(
    client: httpx.AsyncClient,
) -> None:
    assert await _read_encoding(client, "deflate, gzip", **_INITIAL) == "gzip"
    assert await _read_encoding(client, "identity", **_INITIAL) is None
    assert await _read_encoding(client, "gzip;q=1.0", **_INITIAL) is None
    assert await _read_encoding(client, "gzip", **_BOOKMARKS) is None


@pytest.mark.parametrize(
    "features", [FeatureGates(V1_36), FeatureGates(V1_37, WatchListCompression=False)], ids=["1.36", "off"]
)
async def test_no_watch_is_compressed_if_the_feature_gate_is_disabled(
    tmp_path: Path, features: FeatureGates
) -> None:
    config = Config(port=0, data=tmp_path, relaxed=True, features=features)
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        assert await _read_encoding(client, "gzip", **_INITIAL) is None
