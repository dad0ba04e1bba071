import datetime
import ssl
import stat
from pathlib import Path

from cryptography import x509
from dra_cli.certificates import make_certificate


def test_the_certificate_is_for_this_machine_and_its_key_for_the_owner(tmp_path: Path) -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = make_certificate(tmp_path / "auth", now)
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
    parsed = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1"} <= {str(one) for one in names.get_values_for_type(x509.IPAddress)}
    assert parsed.not_valid_before_utc < now < parsed.not_valid_after_utc
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    assert made.authority() == made.certificate.read_text()
