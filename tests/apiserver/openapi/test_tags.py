"""Test that clients can cache OpenAPI documents by their tags, and by the hashes in their addresses."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

import httpx

from tests.support.cases import each_case

PATH = "/openapi/v3/apis/resource.k8s.io/v1"
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@each_case("path", ["/openapi/v2", "/openapi/v3", PATH])
async def test_an_openapi_document_that_the_client_has_cached_is_not_sent_again(
    client: httpx.AsyncClient, path: str
) -> None:
    first = await client.get(path)
    tag = first.headers["etag"]
    assert (len(tag), tag) == (130, tag.upper())
    for known in (tag, f'"x", W/{tag}', "*"):
        again = await client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (await client.get(path, headers={"If-None-Match": '"x"'})).content == first.content


async def test_an_openapi_document_requested_by_hash_may_be_cached_forever(client: httpx.AsyncClient) -> None:
    (address,) = [
        one["serverRelativeURL"]
        for path, one in (await client.get("/openapi/v3")).json()["paths"].items()
        if path == PATH.removeprefix("/openapi/v3/")
    ]
    answer = await client.get(address)
    assert answer.status_code == 200
    assert answer.headers["etag"] == f'"{address.partition("?hash=")[2]}"'
    assert (answer.headers["vary"], answer.headers["cache-control"]) == ("Accept", "public, immutable")
    later = parsedate_to_datetime(answer.headers["expires"]) - parsedate_to_datetime(answer.headers["date"])
    assert later.days in (364, 365)
    old = await client.get(f"{PATH}?hash=OLD")
    assert (old.status_code, old.headers["location"]) == (301, address)
    assert "expires" not in (await client.get(PATH)).headers


@each_case(
    ("path", "accept", "found"),
    [
        ("/openapi/v2", f"{PROTOBUF},application/json", PROTOBUF.replace("@", ".")),
        ("/openapi/v2", f"{PROTOBUF};q=0.5,application/json", "application/json"),
        ("/openapi/v2", "application/*", "application/json"),
        ("/openapi/v2", "text/html, */*;q=0.1", "application/json"),
        ("/openapi/v2", "application/yaml", ""),
        (PATH, "application/yaml", ""),
        (PATH, f"{PROTOBUF.replace('v2', 'v3')},application/json", PROTOBUF.replace("v2@", "v3.")),
        (PATH, f"{PROTOBUF.replace('v2@', 'v3.')}", PROTOBUF.replace("v2@", "v3.")),
        (PATH, "application/yaml,application/json", "application/json"),
    ],
)
async def test_openapi_is_served_in_the_first_acceptable_media_type(
    client: httpx.AsyncClient, path: str, accept: str, found: str
) -> None:
    answer = await client.get(path, headers={"Accept": accept})
    assert answer.status_code == (200 if found else 406)
    assert "Accept" in answer.headers.get_list("vary")
    if found:
        assert answer.headers["content-type"] == found
