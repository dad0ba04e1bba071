"""The pinned scripts of /docs: only a package with the right checksum is unpacked."""

import base64
import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tools.assets import unpack


def _package(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def test_the_scripts_of_the_api_docs_are_packed_with_their_licenses(tmp_path: Path) -> None:
    data = _package(script=b"1", LICENSE=b"free")
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    pin = {"version": "1.0.0", "integrity": integrity, "files": ["script"], "licences": ["LICENSE"]}
    unpack("thing", data, pin, tmp_path)
    assert gzip.decompress((tmp_path / "script.gz").read_bytes()) == b"1"
    assert (tmp_path / "thing.LICENSE.txt").read_text() == "thing 1.0.0\n\nfree"


def test_a_package_with_another_checksum_is_rejected(tmp_path: Path) -> None:
    pin = {"version": "1.0.0", "integrity": "sha512-x", "files": ["script"], "licences": []}
    with pytest.raises(ValueError, match=r"thing 1\.0\.0 has sha512-"):
        unpack("thing", _package(script=b"1"), pin, tmp_path)
    assert not list(tmp_path.iterdir())
