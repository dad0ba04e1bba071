"""Test requests for service accounts' tokens, and requests with them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from dra_apiserver.config import Config
from dra_apiserver.main import main
from dra_apiserver.server import ApiServer
from dra_apiserver.serviceaccount import KeyOptions, Keys, TokenOptions

_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_ISSUER = "https://kubernetes.default.svc"


@asynccontextmanager
async def _serve(folder: Path, options: TokenOptions, *verifying: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = Config(
        port=0,
        data=folder,
        authorization_mode="RBAC",
        tokens=options,
        verifying_keys=verifying,
    )
    async with ApiServer(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        await client.post(_ACCOUNTS, json={"metadata": {"name": "plugin"}})
        yield client


async def _request_token(client: httpx.AsyncClient, **spec: Any) -> httpx.Response:
    response = await client.post(f"{_ACCOUNTS}/plugin/token", json={"spec": spec})
    assert response.status_code == 201, response.text
    return response


async def _review(client: httpx.AsyncClient, token: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    response = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", json=body)
    status: dict[str, Any] = response.json()["status"]
    return status


async def test_tokens_are_verified_by_what_the_server_publishes(tmp_path: Path) -> None:
    async with _serve(tmp_path, TokenOptions()) as client:
        token = (await _request_token(client)).json()["status"]["token"]
        found = await client.get("/.well-known/openid-configuration")
        assert found.headers["cache-control"] == "public, max-age=3600"
        configuration = found.json()
        keys = await client.get(configuration["jwks_uri"])
        assert keys.headers["content-type"] == "application/jwk-set+json"
        assert configuration == {
            "issuer": _ISSUER,
            "jwks_uri": f"{client.base_url}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        relying = jwt.PyJWKSet.from_dict(keys.json())[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(token, relying, audience=_ISSUER, issuer=_ISSUER)
        assert claims["sub"] == "system:serviceaccount:default:plugin"
        # A default role of upstream lets service accounts read these documents.
        account = {"authorization": f"Bearer {token}"}
        for path in ("/.well-known/openid-configuration", "/openid/v1/jwks"):
            assert (await client.get(path, headers=account)).status_code == 200
            assert (await client.post(path)).status_code == 405
        assert {"/.well-known/openid-configuration", "/openid/v1/jwks"} <= {
            *(await client.get("/")).json()["paths"]
        }


async def test_issuer_audiences_and_maximum_expiration_of_tokens_follow_the_flags(tmp_path: Path) -> None:
    options = TokenOptions(("https://new.example", _ISSUER), ("api",), "https://keys.example/jwks", 3600)
    async with _serve(tmp_path, TokenOptions()) as client:
        old = (await _request_token(client, audiences=["api"])).json()["status"]["token"]
    async with _serve(tmp_path, options) as client:
        configuration = (await client.get("/.well-known/openid-configuration")).json()
        assert configuration["issuer"] == "https://new.example"
        assert configuration["jwks_uri"] == "https://keys.example/jwks"
        response = await _request_token(client, expirationSeconds=7200)
        assert (
            response.headers["warning"]
            == '299 - "requested expiration of 7200 seconds shortened to 3600 seconds"'
        )
        made = response.json()
        assert (made["spec"]["audiences"], made["spec"]["expirationSeconds"]) == (["api"], 3600)
        claims = jwt.decode(made["status"]["token"], options={"verify_signature": False})
        assert claims["iss"] == "https://new.example"
        assert claims["exp"] - claims["iat"] == 3600
        for token in (old, made["status"]["token"]):
            assert (await _review(client, token))["audiences"] == ["api"]
    async with _serve(tmp_path, replace(options, issuers=("https://new.example",))) as client:
        assert (await _review(client, old))["error"] == "invalid bearer token"


async def test_tokens_of_another_server_are_accepted_with_its_key(tmp_path: Path) -> None:
    theirs = Keys(KeyOptions(tmp_path / "theirs.key"))
    theirs.sign(b"{}")
    async with _serve(tmp_path / "a", TokenOptions()) as client:
        ours = (await _request_token(client)).json()["status"]["token"]
        claims = jwt.decode(ours, options={"verify_signature": False})
        foreign = theirs.sign(json.dumps(claims).encode())
        unknown = {"user": {}, "error": "[invalid bearer token, invalid signature, no keys found]"}
        assert await _review(client, foreign) == unknown
        broken = ours[:-8] + ("A" * 8 if not ours.endswith("A" * 8) else "B" * 8)
        assert (await _review(client, broken))["error"] == (
            "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"
        )
        for headers in ({"authorization": f"Bearer {broken}"}, {"authorization": f"Bearer {foreign}"}):
            assert (await client.get("/api/v1/pods", headers=headers)).status_code == 401
    async with _serve(tmp_path / "a", TokenOptions(), tmp_path / "theirs.key") as client:
        assert (await _review(client, foreign))["user"]["username"] == "system:serviceaccount:default:plugin"


@pytest.mark.parametrize(
    "claims",
    [
        b'{"iss":"https://kubernetes.default.svc"}',
        b'{"iss":"https://kubernetes.default.svc","aud":"https://kubernetes.default.svc","kubernetes.io":{}}',
        b'{"iss":"https://kubernetes.default.svc","kubernetes.io":{"namespace":"default"}}',
    ],
)
async def test_a_signed_token_with_unexpected_claims_is_rejected(tmp_path: Path, claims: bytes) -> None:
    keys = Keys(KeyOptions(tmp_path / "theirs.key"))
    token = keys.sign(claims)
    async with _serve(tmp_path / "a", TokenOptions(), tmp_path / "theirs.key") as client:
        found = await _review(client, token)
        assert found["error"] == "[invalid bearer token, service account token has been invalidated]"


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--service-account-max-token-expiration=10m", "must be between 1 hour and 2^32 seconds"),
        ("--service-account-max-token-expiration=soon", "invalid seconds value: 'soon'"),
        ("--service-account-jwks-uri=http://x", "requires https scheme"),
        ("--service-account-signing-key-file=/dev/null", "valid RSA or ECDSA private key"),
        ("--service-account-key-file=/dev/null", "valid RSA or ECDSA public keys"),
    ],
)
def test_invalid_flags_are_rejected_at_the_start(
    flag: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([flag])
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
