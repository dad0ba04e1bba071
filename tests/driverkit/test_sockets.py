"""The names of registration sockets, with upstream's cases (draplugin_registration_test.go)."""

import base64
import hashlib
from pathlib import Path

from dra_driverkit.server import PATH_MAX, registration_socket

from tests.support.cases import each_case

_REGISTRAR = Path("/var/lib/kubelet/plugins_registry")
_UID = "ad4af911-5bcd-47c5-a554-f35cea869472"
_SHORT_UID = "11111111-2222-3333-4444-555555555555"
_LONG = "gpu.dra-example-driver.sigs.k8s.io"


def _hash(text: str, size: int) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:size], b"-_").decode().rstrip("=")


@each_case(
    ("registrar", "driver", "uid", "name"),
    [
        (_REGISTRAR, "driver.example.com", "", "driver.example.com-reg.sock"),
        (_REGISTRAR, "a" * 100, "", "dra-" + _hash("a" * 100, 16) + "-reg.sock"),
        (_REGISTRAR, "driver.example.com", _SHORT_UID, f"driver.example.com-{_SHORT_UID}-reg.sock"),
        (_REGISTRAR, _LONG, _UID, f"{_LONG}-{_hash(_UID, 8)}-reg.sock"),
        (_REGISTRAR, "a" * 100, _UID, "dra-" + _hash("a" * 100 + "\0" + _UID, 16) + "-reg.sock"),
        (
            Path("/var/lib/kubelet") / ("x" * 20) / "plugins_registry",
            "driver.example.com",
            _SHORT_UID,
            f"driver.example.com-{_hash(_SHORT_UID, 8)}-reg.sock",
        ),
    ],
)
def test_the_longest_name_that_fits_is_chosen(registrar: Path, driver: str, uid: str, name: str) -> None:
    path = registration_socket(registrar, driver, uid)
    assert path == registrar / name
    assert len(str(path)) <= PATH_MAX


def test_the_hash_in_a_name_equals_upstreams() -> None:
    # printf %s UID | openssl dgst -sha256 -binary | head -c 8 | base64
    assert registration_socket(_REGISTRAR, _LONG, _UID).name == f"{_LONG}-Jk8-oymVURI-reg.sock"


def test_drivers_and_pods_do_not_share_a_socket() -> None:
    inputs = [(driver, uid) for driver in ("a" * 100, "b" * 100) for uid in (_UID, _SHORT_UID)]
    assert len({registration_socket(_REGISTRAR, *pair) for pair in inputs}) == 4


def test_the_shortest_name_is_used_in_a_directory_that_is_too_long() -> None:
    path = registration_socket(Path("/" + "x" * 200), "driver.example.com", _UID)
    assert path.name.startswith("dra-")
