"""The key that signs service accounts' tokens."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from dra_apiserver.tokens import Tokens

ACCOUNT = {"metadata": {"name": "default", "namespace": "default", "uid": "1"}}


def issued(path: Path) -> str:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Tokens(path, lambda *_: None, lambda: now).issue(ACCOUNT, 3600, [], {})


@pytest.mark.parametrize("left", [b"", b"short"])
def test_a_key_that_was_cut_short_signs_nothing(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "service-account.key"
    path.write_bytes(left)
    path.chmod(0o600)
    issued(path)
    assert len(path.read_bytes()) == 32
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "service-account.key"
    issued(path)
    kept = path.read_bytes()
    issued(path)
    assert path.read_bytes() == kept
