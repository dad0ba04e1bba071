"""Test the users and servers that kubeconfig files name, and requests to them over TLS."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from dra_shared.client.kubeconfig import KubeconfigError, load, users
from dra_shared.client.transport import HttpTransport

from tests.shared.client.fake_server import reply, serve
from tests.support.certificates import Party


def _write(path: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "there", "context": {"cluster": "other", "user": "u"}},
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [
            {"name": "other", "cluster": {"server": "http://other.test"}},
            {"name": "c", "cluster": cluster},
        ],
        "users": [{"name": "u", "user": user or {}}],
    }
    file = path / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def _data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def test_the_current_context_or_a_named_one_is_used(tmp_path: Path) -> None:
    file = _write(tmp_path, {"server": "http://127.0.0.1:8080"}, {"token": "secret"})
    access = load(file)
    assert (access.server, access.token, access.ssl_context) == ("http://127.0.0.1:8080", "secret", None)
    assert load(file, "there").server == "http://other.test"


def test_token_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert load(_write(tmp_path, {"server": "http://a.test"}, {"tokenFile": "token"})).token == "from-file"


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {}, "the cluster has no server"),
        ({"server": "http://a.test"}, {"exec": {"command": "aws"}}, "the user's exec is not supported"),
        ({"server": "https://a.test", "certificate-authority": "absent.pem"}, {}, "absent.pem"),
        ({"server": "https://a.test", "certificate-authority-data": "%"}, {}, "kubeconfig: "),
        ({"server": "https://a.test", "certificate-authority-data": "AAAA"}, {}, "kubeconfig: "),
    ],
)
def test_the_error_names_unusable_kubeconfig_entries(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    with pytest.raises(KubeconfigError, match=message):
        load(_write(tmp_path, cluster, user))


def test_missing_contexts_and_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match='context "nowhere" does not exist'):
        load(_write(tmp_path, {"server": "http://a.test"}), "nowhere")
    with pytest.raises(KubeconfigError, match="absent"):
        load(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(KubeconfigError, match="is not a kubeconfig"):
        load(tmp_path / "text")


async def _ask(file: Path) -> tuple[int, bytes]:
    access = load(file)
    transport = HttpTransport(ssl_context=access.ssl_context, server_name=access.server_name)
    async with transport:
        response = await transport.handle_async_request(httpx.Request("GET", access.server))
        return response.status_code, await response.aread()


async def test_server_and_client_authenticate_each_other(tmp_path: Path) -> None:
    authority = Party("authority")
    server = Party("api.test", authority, "127.0.0.1")
    client = Party("admin", authority)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "server.pem").write_bytes(server.pem + server.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    async def handle(_: bytes, writer: asyncio.StreamWriter) -> None:
        subject = writer.get_extra_info("peercert")["subject"]
        writer.write(reply(str(subject[0][0][1]).encode()))

    own = {"client-certificate-data": _data(client.pem), "client-key-data": _data(client.key_pem)}
    async with serve(handle, context) as url:
        trusting = {"server": url, "certificate-authority-data": _data(authority.pem)}
        assert await _ask(_write(tmp_path, trusting, own)) == (200, b"admin")
        named = {"server": url, "certificate-authority": "ca.pem", "tls-server-name": "api.test"}
        assert await _ask(_write(tmp_path, named, own)) == (200, b"admin")
        skipping = {"server": url, "insecure-skip-tls-verify": True}
        assert await _ask(_write(tmp_path, skipping, own)) == (200, b"admin")
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await _ask(_write(tmp_path, {"server": url}, own))
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await _ask(_write(tmp_path, {**named, "tls-server-name": "other.test"}, own))
        with pytest.raises(httpx.TransportError):
            await _ask(_write(tmp_path, trusting))


def test_the_error_for_a_missing_kubeconfig_names_the_file_once(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as caught:
        load(tmp_path / "config")
    assert str(caught.value) == f"cannot read kubeconfig {tmp_path / 'config'}: No such file or directory"


def test_each_user_has_its_own_credentials_for_the_cluster(tmp_path: Path) -> None:
    authority = Party("authority")
    user = Party("node", authority)
    certified = {"client-certificate-data": _data(user.pem), "client-key-data": _data(user.key_pem)}
    file = _write(tmp_path, {"server": "https://a.test", "certificate-authority-data": _data(authority.pem)})
    document = yaml.safe_load(file.read_text())
    document["users"] += [{"name": "joe", "user": {"token": "s"}}, {"name": "jane", "user": certified}]
    file.write_text(yaml.safe_dump(document))
    found = users(file)
    assert sorted(found) == ["jane", "joe"]
    assert found["joe"].token == "s"
    assert found["joe"].ssl_context is found["joe"].bare_context is not None
    assert found["jane"].ssl_context is not found["jane"].bare_context is not None


async def test_a_token_is_not_sent_if_a_certificate_is_used(tmp_path: Path) -> None:
    authority = Party("authority")
    server, user = Party("localhost", authority, "127.0.0.1"), Party("controller", authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = tmp_path / "server.pem"
    pem.write_bytes(server.pem + server.key_pem)
    context.load_cert_chain(pem)
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    seen: list[bool] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen.append(bool(writer.get_extra_info("peercert")))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    certified = {"client-certificate-data": _data(user.pem), "client-key-data": _data(user.key_pem)}
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": _data(authority.pem),
    }
    async with listening, load(_write(tmp_path, cluster, certified)).client("test") as client:
        await client.raw("GET", "/")
        await client.with_token("account").raw("GET", "/")
        await client.raw("GET", "/")
    assert seen == [True, False, True]
