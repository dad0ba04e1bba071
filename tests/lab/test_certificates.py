import datetime
import socket
import ssl
import stat
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from dra_lab.certificates import Authority
from dra_shared.errors import UserError

_NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_a_server_certificate_names_this_machine_and_the_given_hosts(tmp_path: Path) -> None:
    authority = Authority.load_or_create(tmp_path / "auth", _NOW)
    made = authority.server("kube-apiserver", ["lab.example", "192.0.2.7"])
    parsed = x509.load_pem_x509_certificate(made.certificate)
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc", "lab.example"} <= set(
        names.get_values_for_type(x509.DNSName)
    )
    assert {"127.0.0.1", "::1", "192.0.2.7"} <= {
        str(one) for one in names.get_values_for_type(x509.IPAddress)
    }
    assert parsed.not_valid_before_utc < _NOW < parsed.not_valid_after_utc
    written = made.write(tmp_path / "auth" / "apiserver")
    assert [stat.S_IMODE(file.stat().st_mode) for file in written] == [0o600, 0o600]
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*written)


def test_the_authority_is_stored_and_may_be_provided_by_the_user(tmp_path: Path) -> None:
    first = Authority.load_or_create(tmp_path, _NOW)
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600
    assert Authority.load_or_create(tmp_path, _NOW).pem == first.pem == (tmp_path / "ca.crt").read_text()
    with pytest.raises(UserError, match="has expired: remove it"):
        Authority.load_or_create(tmp_path, _NOW + datetime.timedelta(days=3651))
    other = Authority.load_or_create(tmp_path / "other", _NOW)
    (tmp_path / "ca.crt").write_text(other.pem)
    with pytest.raises(UserError, match=r"ca\.key is not the key of .*ca\.crt"):
        Authority.load_or_create(tmp_path, _NOW)
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(UserError, match="cannot use the certificate authority"):
        Authority.load_or_create(tmp_path, _NOW)
    with pytest.raises(UserError, match=r"cannot use .*ca\.crt: Not a directory"):
        Authority.load_or_create(tmp_path / "ca.crt", _NOW)


def test_clients_and_servers_trust_certificates_of_the_authority(tmp_path: Path) -> None:
    authority = Authority.load_or_create(tmp_path, datetime.datetime.now(datetime.UTC))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.server("server").write(tmp_path / "server"))
    server.load_verify_locations(cadata=authority.pem)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=authority.pem)
    # This common name is longer than X.520 allows, because a node's name alone may have 253 characters.
    jane, team = "jane" * 60, "team" * 60
    with warnings.catch_warnings(record=True) as caught:
        client.load_cert_chain(*authority.user(jane, [team, "other"]).write(tmp_path / "jane"))
    assert not caught
    ends = socket.socketpair()
    wrapped = (
        server.wrap_socket(ends[0], server_side=True, do_handshake_on_connect=False),
        client.wrap_socket(ends[1], server_hostname=socket.gethostname(), do_handshake_on_connect=False),
    )
    with wrapped[0], wrapped[1]:
        for end in wrapped:
            end.setblocking(False)
        left = list(wrapped)
        while left:
            left = [end for end in left if not _finish_handshake(end)]
        seen = wrapped[0].getpeercert()
    assert seen is not None
    assert seen["subject"] == (
        (("organizationName", team),),
        (("organizationName", "other"),),
        (("commonName", jane),),
    )


def _finish_handshake(end: ssl.SSLSocket) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
