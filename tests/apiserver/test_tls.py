"""Test HTTPS, and users with client certificates."""

import datetime
import hashlib
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.credentials import Credentials
from dra_apiserver.errors import StatusError
from dra_apiserver.server import ApiServer
from dra_apiserver.serviceaccount import KeyOptions, Keys, TokenOptions, Tokens
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.user import UserInfo
from dra_shared.clientcertificate import ClientCertificate
from dra_shared.servingtls import ServingTLS
from structlog.testing import capture_logs

from tests.support.certificates import Party

_ORGANIZATION, _UID = "2.5.4.10", "1.3.6.1.4.1.57683.2"


class _Files:
    """The server's files, and TLS contexts for clients."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key, self.client_ca = (
            folder / name for name in ("tls.crt", "tls.key", "client-ca.crt")
        )
        self.users = Party("users")
        self.served_by(Party("first"))
        self._write(self.client_ca, self.users.pem)
        self._folder = folder

    def _write(self, file: Path, content: bytes) -> None:
        file.write_bytes(content)
        # The file system's clock may be coarse, so a quick change may not show in the time of modification.
        self._turn = getattr(self, "_turn", 0) + 1
        os.utime(file, ns=(self._turn, self._turn))

    def served_by(self, authority: Party) -> None:
        server = Party("localhost", authority, "127.0.0.1")
        self._write(self.key, server.key_pem)
        self._write(self.certificate, server.pem)
        self.authority = authority

    def trust(self, users: Party) -> None:
        self._write(self.client_ca, users.pem)
        self.users = users

    def client(self, user: Party | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if user is not None:
            file = self._folder / "user.pem"
            file.write_bytes(user.pem + user.key_pem)
            context.load_cert_chain(file)
        return context


@asynccontextmanager
async def _serve(
    folder: Path, *, mode: str = "RBAC", known: dict[str, UserInfo] | None = None
) -> AsyncIterator[tuple[str, _Files]]:
    files = _Files(folder)
    config = Config(
        port=0,
        data=folder,
        database=IN_MEMORY,
        authorization_mode=mode,
        tls=ServingTLS(files.certificate, files.key, files.client_ca),
        client_certificates=True,
        known_tokens=known or {},
    )
    async with ApiServer(config) as server:
        yield server.url, files


async def _whoami(url: str, context: ssl.SSLContext, **headers: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with httpx.AsyncClient(base_url=url, verify=context, trust_env=False) as client:
        answer: dict[str, Any] = (await client.post(path, json=body, headers=headers)).json()
    found: dict[str, Any] = answer if answer["kind"] == "Status" else answer["status"]["userInfo"]
    return found


async def test_a_certificate_identifies_its_user_and_overrides_a_token(tmp_path: Path) -> None:
    known = {"s3cret": UserInfo("by-token", ("system:masters", "system:authenticated"))}
    async with _serve(tmp_path, known=known) as (url, files):
        subject = [(_ORGANIZATION, "team"), (_ORGANIZATION, "other"), (_UID, "u-1")]
        jane = Party("jane", files.users, more=subject)
        der = ssl.PEM_cert_to_DER_cert(jane.pem.decode())
        assert await _whoami(url, files.client(jane), authorization="Bearer s3cret") == {
            "username": "jane",
            "uid": "u-1",
            "groups": ["team", "other", "system:authenticated"],
            "extra": {
                "authentication.kubernetes.io/credential-id": [
                    f"X509SHA256={hashlib.sha256(der).hexdigest()}"
                ]
            },
        }
        nameless = Party("", files.users, more=[(_ORGANIZATION, "team")])
        by_token = await _whoami(url, files.client(nameless), authorization="Bearer s3cret")
        assert by_token["username"] == "by-token"
        masters = Party("root", files.users, more=[(_ORGANIZATION, "system:masters")])
        whom = {"impersonate-user": "someone"}
        assert (await _whoami(url, files.client(masters), **whom))["username"] == "someone"
        assert 'User "jane" cannot impersonate' in (await _whoami(url, files.client(jane), **whom))["message"]


async def test_clients_without_certificate_are_anonymous(tmp_path: Path) -> None:
    async with _serve(tmp_path) as (url, files):
        async with httpx.AsyncClient(base_url=url, verify=files.client(), trust_env=False) as client:
            assert (await client.get("/readyz")).text == "ok"
            refused = (await client.get("/api/v1/pods")).json()
            token = await client.get("/version", headers={"authorization": "Bearer x"})
        assert refused["message"] == (
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
            "at the cluster scope"
        )
        assert token.status_code == 401
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)):
            await _whoami(url, files.client(Party("jane", Party("strangers"))))


async def test_changed_certificates_are_used_from_the_next_connection(tmp_path: Path) -> None:
    async with _serve(tmp_path, mode="AlwaysAllow") as (url, files):
        jane, before = Party("jane", files.users), files.client()
        async with httpx.AsyncClient(base_url=url, verify=before, trust_env=False) as open_already:
            assert (await open_already.get("/version")).status_code == 200
            files.key.write_bytes(Party("half").key_pem)
            assert (await _whoami(url, files.client(jane)))["username"] == "jane"
            files.served_by(Party("second"))
            assert (await _whoami(url, files.client(jane)))["username"] == "jane"
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await _whoami(url, before)
            files.trust(Party("other users"))
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)):
                await _whoami(url, files.client(jane))
            assert (await _whoami(url, files.client(Party("joe", files.users))))["username"] == "joe"
            assert (await open_already.get("/version")).status_code == 200


async def test_unusable_certificate_files_are_reported_once_until_they_change(tmp_path: Path) -> None:
    async with _serve(tmp_path, mode="AlwaysAllow") as (url, files):
        with capture_logs() as logs:
            for content in (b"garbage", b"other garbage"):
                files.certificate.write_bytes(content)
                for _ in range(3):
                    assert (await _whoami(url, files.client(Party("jane", files.users))))[
                        "username"
                    ] == "jane"
    assert [log["event"] for log in logs] == 2 * ["cannot use the changed certificates yet"]


def test_an_expired_certificate_is_rejected_on_an_open_connection(tmp_path: Path) -> None:
    moment = 100.0
    now = datetime.datetime.fromtimestamp(0, datetime.UTC)
    tokens = Tokens(Keys(KeyOptions(tmp_path / "key")), TokenOptions(), lambda *_: None, lambda: now)
    credentials = Credentials(tokens, {}, required=False, checked=True, now=lambda: moment)
    good = ClientCertificate("jane", ("system:authenticated",), (), 100.0, "f")
    user = credentials.certificate_user(good)
    assert user is not None
    assert user.groups == ("system:authenticated",)
    moment = 101.0
    with pytest.raises(StatusError, match="Unauthorized"):
        credentials.certificate_user(good)
    moment = 1.0
    for uids in (("a", "b"), ("",)):
        with pytest.raises(StatusError, match="Unauthorized"):
            credentials.certificate_user(ClientCertificate("jane", (), uids, 100.0, "f"))
