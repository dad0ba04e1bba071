"""Test users' tokens, and requests without a token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.credentials import read_token_file
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.user import UserInfo

_KNOWN = {
    "s3cret": UserInfo("jane", ("team", "system:authenticated"), uid="7"),
    "root": UserInfo("kubernetes-admin", ("system:masters", "system:authenticated")),
}
_PATHS = (
    "/",
    "/version",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi/v2",
    "/docs",
    "/api/v1/pods",
    "/nothing",
)
_MALFORMED = (
    "",
    "Bearer",
    "Bearer  s3cret",
    "Basic czNjcmV0",
    "s3cret",
    "Bearer other",
    "bearer:s3cret",
)


@asynccontextmanager
async def _serve(
    folder: Path, *, rbac: bool = False, anonymous: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(
        port=0,
        data=folder,
        database=IN_MEMORY,
        authorization_mode="RBAC" if rbac else "AlwaysAllow",
        anonymous_auth=anonymous,
        known_tokens=_KNOWN,
    )
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        yield client


async def _name(client: httpx.AsyncClient, **headers: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    response = await client.post(path, json=body, headers=headers)
    if response.status_code != 201:
        return f"{response.status_code} {response.json()['message']}"
    name: str = response.json()["status"]["userInfo"]["username"]
    return name


def test_the_token_file_has_upstreams_format(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('t0,"a, b",1\nt1,node,2,"system:nodes,x"\n,nameless,3\n\nt2,c,,\n')
    assert read_token_file(path) == {
        "t0": UserInfo("a, b", ("system:authenticated",), uid="1"),
        "t1": UserInfo("node", ("system:nodes", "x", "system:authenticated"), uid="2"),
        "t2": UserInfo("c", ("", "system:authenticated")),
    }
    path.write_text("secret,name\n")
    with pytest.raises(ValueError, match="at least 3 columns") as error:
        read_token_file(path)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("rbac", [False, True])
async def test_a_caller_with_a_known_token_is_its_user(tmp_path: Path, rbac: bool) -> None:
    async with _serve(tmp_path, rbac=rbac) as client:
        assert await _name(client, authorization="Bearer s3cret") == "jane"
        assert await _name(client, authorization="bearer s3cret and more") == "jane"
        assert await _name(client) == "system:admin"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "s3cret"}}
        response = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", json=body)
        assert response.json()["status"] == {
            "authenticated": True,
            "user": {"username": "jane", "uid": "7", "groups": ["team", "system:authenticated"]},
            "audiences": ["https://kubernetes.default.svc"],
        }
        body["spec"] = {"token": "s3cret", "audiences": ["vault"]}
        response = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", json=body)
        assert response.json()["status"] == {"user": {}, "error": "invalid bearer token"}


async def test_roles_apply_to_users_of_the_token_file(tmp_path: Path) -> None:
    async with _serve(tmp_path, rbac=True) as client:
        codes = [
            (await client.get("/api/v1/pods", headers={"authorization": f"Bearer {token}"})).status_code
            for token in ("s3cret", "root")
        ]
        assert codes == [403, 200]


@pytest.mark.parametrize("header", _MALFORMED)
async def test_invalid_credentials_are_rejected_with_rbac(tmp_path: Path, header: str) -> None:
    async with _serve(tmp_path, rbac=True) as client:
        assert await _name(client, authorization=header) == "401 Unauthorized"
        impersonating = {"impersonate-user": "system:admin", "impersonate-group": "system:masters"}
        assert await _name(client, authorization=header, **impersonating) == "401 Unauthorized"


@pytest.mark.parametrize("rbac", [False, True])
async def test_every_route_needs_a_token_without_anonymous_access(tmp_path: Path, rbac: bool) -> None:
    async with _serve(tmp_path, rbac=rbac, anonymous=False) as client:
        for path in _PATHS:
            for headers in ({}, {"authorization": "Bearer other"}, {"impersonate-user": "system:admin"}):
                response = await client.get(path, headers=headers)
                assert (response.status_code, response.json()["reason"]) == (401, "Unauthorized"), path
        for header in _MALFORMED:
            assert await _name(client, authorization=header) == "401 Unauthorized"
        assert await _name(client, authorization="Bearer root") == "kubernetes-admin"
        as_jane = {"authorization": "Bearer root", "impersonate-user": "jane"}
        assert await _name(client, **as_jane) == "jane"
