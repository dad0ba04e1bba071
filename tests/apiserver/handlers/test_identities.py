"""Test which user a request is attributed to: by service account token, by impersonation, or without credentials."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.clock import FakeClock, rfc3339
from dra_shared.jsontypes import JsonObject

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def client(tmp_path: Path, clock: FakeClock) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with (
        ApiServer(config, clock) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as made,
    ):
        yield made


async def whoami(client: httpx.AsyncClient, headers: dict[str, str] | None = None) -> JsonObject:
    answer = await client.post(REVIEWS, json=REVIEW, headers=headers)
    assert answer.status_code == 201, answer.text
    found: JsonObject = answer.json()["status"]["userInfo"]
    return found


async def test_a_self_subject_review_returns_a_new_object(
    client: httpx.AsyncClient, clock: FakeClock
) -> None:
    """Check that the answer has the time and nothing of the request, like that of upstream's selfsubjectreview."""
    answer = await client.post(REVIEWS, json={**REVIEW, "metadata": {"labels": {"a": "b"}}})
    assert answer.json()["metadata"] == {"creationTimestamp": rfc3339(clock.now())}


async def token(client: httpx.AsyncClient, **spec: Any) -> httpx.Response:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return await client.post(f"{ACCOUNTS}/driver/token", json=body)


async def create(client: httpx.AsyncClient, path: str, obj: JsonObject) -> JsonObject:
    answer = await client.post(path, json=obj)
    assert answer.status_code == 201, answer.text
    found: JsonObject = answer.json()
    return found


async def account(client: httpx.AsyncClient) -> JsonObject:
    return await create(
        client, ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driver"}}
    )


async def pod_on_a_node(client: httpx.AsyncClient) -> tuple[JsonObject, JsonObject]:
    node = await create(
        client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    )
    spec = {
        "serviceAccountName": "driver",
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "i"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    return await create(client, PODS, pod), node


async def test_a_pod_token_names_the_node_of_the_pod(client: httpx.AsyncClient) -> None:
    uid = (await account(client))["metadata"]["uid"]
    pod, node = await pod_on_a_node(client)
    answer = await token(client, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"})
    issued = answer.json()["status"]["token"]
    claims = orjson.loads(base64.urlsafe_b64decode(issued.split(".")[1] + "=="))
    assert claims["kubernetes.io"] == {
        "namespace": "default",
        "pod": {"name": "p", "uid": pod["metadata"]["uid"]},
        "node": {"name": "n1", "uid": node["metadata"]["uid"]},
        "serviceaccount": {"name": "driver", "uid": uid},
    }
    assert claims["aud"] == ["https://kubernetes.default.svc"]
    assert await whoami(client, {"Authorization": f"Bearer {issued}"}) == {
        "username": "system:serviceaccount:default:driver",
        "uid": uid,
        "groups": [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ],
        "extra": {
            "authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"],
            "authentication.kubernetes.io/node-name": ["n1"],
            "authentication.kubernetes.io/node-uid": [node["metadata"]["uid"]],
            "authentication.kubernetes.io/pod-name": ["p"],
            "authentication.kubernetes.io/pod-uid": [pod["metadata"]["uid"]],
        },
    }


async def test_a_token_expires_with_its_time_or_its_pod(client: httpx.AsyncClient, clock: FakeClock) -> None:
    await account(client)
    await pod_on_a_node(client)
    free = (await token(client, expirationSeconds=600)).json()["status"]["token"]
    bound = await token(client, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"})
    await client.request("DELETE", f"{PODS}/p", json={"gracePeriodSeconds": 0})
    headers = {"Authorization": f"Bearer {bound.json()['status']['token']}"}
    refused = await client.post(REVIEWS, json=REVIEW, headers=headers)
    assert refused.status_code == 401
    assert refused.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    assert (await whoami(client, {"Authorization": f"Bearer {free}"}))["username"].endswith(":driver")
    await clock.advance(661)
    late = await client.post(REVIEWS, json=REVIEW, headers={"Authorization": f"Bearer {free}"})
    assert late.status_code == 401


async def test_the_mounted_token_of_a_pod_has_an_extended_expiration(
    client: httpx.AsyncClient, clock: FakeClock
) -> None:
    await account(client)
    await pod_on_a_node(client)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    issued = (await token(client, boundObjectRef=bound, expirationSeconds=3607)).json()["status"]["token"]
    await clock.advance(2 * 3600)
    assert (await whoami(client, {"Authorization": f"Bearer {issued}"}))["username"].endswith(":driver")


async def test_an_unknown_token_acts_as_the_administrator(client: httpx.AsyncClient) -> None:
    await account(client)
    issued = (await token(client)).json()["status"]["token"]
    forged = issued[:-4] + ("AAAA" if not issued.endswith("AAAA") else "BBBB")
    for one in ("anything", forged, "a.b.c"):
        assert (await whoami(client, {"Authorization": f"Bearer {one}"}))["username"] == "system:admin"


async def test_a_token_for_another_audience_is_refused(client: httpx.AsyncClient) -> None:
    await account(client)
    issued = (await token(client, audiences=["vault", "other"])).json()["status"]["token"]
    refused = await client.post(REVIEWS, json=REVIEW, headers={"Authorization": f"Bearer {issued}"})
    assert (refused.status_code, refused.json()["reason"]) == (401, "Unauthorized")


async def review(client: httpx.AsyncClient, **spec: Any) -> JsonObject:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    found = await create(client, "/apis/authentication.k8s.io/v1/tokenreviews", body)
    status: JsonObject = found["status"]
    return status


async def test_a_token_review_confirms_only_audiences_that_the_token_has(client: httpx.AsyncClient) -> None:
    await account(client)
    issued = (await token(client, audiences=["vault", "other"])).json()["status"]["token"]
    confirmed = await review(client, token=issued, audiences=["none", "other", "vault"])
    assert confirmed["authenticated"]
    assert confirmed["audiences"] == ["vault", "other"]
    assert confirmed["user"]["username"] == "system:serviceaccount:default:driver"
    server = "https://kubernetes.default.svc"
    for asked in ([], ["none", server]):
        target = " ".join(f'"{one}"' for one in asked or [server])
        assert await review(client, token=issued, audiences=asked) == {
            "user": {},
            "error": '[invalid bearer token, token audiences ["vault" "other"] is invalid for the target audiences '
            f"[{target}]]",
        }
    own = (await token(client)).json()["status"]["token"]
    assert (await review(client, token=own))["audiences"] == [server]


async def test_a_token_review_rejects_tokens_that_the_server_did_not_issue(
    client: httpx.AsyncClient, clock: FakeClock
) -> None:
    await account(client)
    assert await review(client, token="anything") == {"user": {}, "error": "invalid bearer token"}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}}
    refused = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", json=body)
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "token is required for TokenReview in authentication",
    )
    issued = (await token(client, expirationSeconds=600)).json()["status"]["token"]
    await clock.advance(661)
    late = await review(client, token=issued)
    assert late["error"] == "[invalid bearer token, service account token has expired]"


async def test_a_token_is_bound_only_to_a_pod_of_its_account(client: httpx.AsyncClient) -> None:
    await account(client)
    refused = await token(client, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "none"})
    assert (refused.status_code, refused.json()["message"]) == (404, 'pods "none" not found')
    refused = await token(client, boundObjectRef={"apiVersion": "v1", "kind": "ConfigMap", "name": "c"})
    assert refused.json()["message"] == "cannot bind token to object of type /v1, Kind=ConfigMap"
    containers = [{"name": "c", "image": "i"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
    await create(client, PODS, pod)
    refused = await token(client, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "x"})
    assert refused.json()["message"] == (
        'cannot bind token for serviceaccount "driver" to pod running with different serviceaccount name.'
    )


async def test_requests_are_attributed_to_impersonated_users(client: httpx.AsyncClient) -> None:
    assert await whoami(client) == {
        "username": "system:admin",
        "groups": ["system:masters", "system:authenticated"],
    }
    headers = {
        "Impersonate-User": "system:serviceaccount:dra:plugin",
        "Impersonate-Extra-Authentication.kubernetes.io%2fnode-name": "n1",
        "Impersonate-Uid": "7",
    }
    assert await whoami(client, headers) == {
        "username": "system:serviceaccount:dra:plugin",
        "uid": "7",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:dra", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/node-name": ["n1"]},
    }
    bob = await whoami(client, {"Impersonate-User": "bob", "Impersonate-Group": "team"})
    assert bob == {"username": "bob", "groups": ["team", "system:authenticated"]}
    refused = await client.post(REVIEWS, json=REVIEW, headers={"Impersonate-Group": "team"})
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"team"}, '
        "Extra:map[string][]string(nil)} without impersonating a user name",
    )
