"""Fetch the scripts of /docs, /redoc and /console that ``assets.toml`` pins, with npm: ``python -m tools.assets``.

A package is rejected if its checksum is not the pinned one. The files are stored compressed, because they are also
served compressed.
"""

import base64
import gzip
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

_PINS = Path(__file__).with_suffix(".toml")
_FOLDER = Path(__file__).parents[1] / "services/apiserver/dra_apiserver/front/assets"


def fetch(name: str, pin: dict[str, Any], folder: Path) -> None:
    """Write the package's files and licences to the folder."""
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--silent", f"{name}@{pin['version']}"]
        packed = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout
        file = Path(place, packed.split()[-1])
        unpack(name, file.read_bytes(), pin, folder)


def unpack(name: str, data: bytes, pin: dict[str, Any], folder: Path) -> None:
    """Unpack the files and licences of a package.

    Raises:
        ValueError: its checksum is not the pinned one.
    """
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if integrity != pin["integrity"]:
        raise ValueError(f"{name} {pin['version']} has {integrity}, not {pin['integrity']}")
    with tempfile.TemporaryFile() as spooled:
        spooled.write(data)
        spooled.seek(0)
        with tarfile.open(fileobj=spooled) as package:
            for path in pin["files"]:
                packed = gzip.compress(_content(package, path), mtime=0)
                (folder / f"{Path(path).name}.gz").write_bytes(packed)
            licences = [_content(package, path).decode() for path in pin["licences"]]
    text = f"{name} {pin['version']}\n\n" + "\n\n".join(licences)
    (folder / f"{name.removeprefix('@').replace('/', '-')}.LICENSE.txt").write_text(text)


def _content(package: tarfile.TarFile, path: str) -> bytes:
    file = package.extractfile(f"package/{path}")
    if file is None:
        raise ValueError(f"there is no file {path} in the package")
    return file.read()


def main() -> int:
    """Fetch all packages."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name, pin in tomllib.loads(_PINS.read_text()).items():
        fetch(name, pin, _FOLDER)
        print(f"{name} {pin['version']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
