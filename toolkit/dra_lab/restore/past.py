"""The history in a bundle, as the file that initializes the database of a new API server (its ``--past``)."""

import json
import tarfile
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from dra_shared.errors import UserError
from dra_worlds.unpacking import TooMuch, check_tar, is_tar

_ROOT = "dralab-bundle"
_BEGIN, _HISTORY = f"{_ROOT}/begin/", f"{_ROOT}/history/"
_FIELDS = ("revision", "type", "user", "agent", "manager", "verb", "subresource")


def past(source: str, data: Path) -> Path | None:
    """Write the history of a bundle's cluster to a file below ``data``, and return it; None if the source has none.

    Raises:
        UserError: it cannot be read or written.
    """
    path = Path(source)
    if not path.is_file() or not _is_tar(path):
        return None
    try:
        check_tar(path)
        with tarfile.open(path) as archive:
            names = set(archive.getnames())
            if f"{_ROOT}/begin.json" not in names:
                return None
            made = data.absolute() / "restored" / "past.jsonl"
            made.parent.mkdir(parents=True, exist_ok=True)
            with made.open("w") as file:
                for line in _lines(archive, sorted(names)):
                    file.write(json.dumps(line) + "\n")
    except (OSError, EOFError, tarfile.TarError, zlib.error, ValueError, KeyError, TooMuch) as error:
        raise UserError(f"cannot read the history in {source}: {error}") from error
    return made


def _is_tar(path: Path) -> bool:
    with path.open("rb") as file:
        return is_tar(file)


def _lines(archive: tarfile.TarFile, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a line for the first moment, one for each object at that moment, and one for each later change."""
    begin = json.load(_file(archive, f"{_ROOT}/begin.json"))
    revision = int(begin["revision"])
    yield {"revision": revision, "time": _milliseconds(begin["time"])}
    for name in names:
        if name.startswith(_BEGIN):
            for text in _file(archive, name):
                obj = json.loads(text)
                at = int(obj["metadata"]["resourceVersion"])
                yield {"object": obj, "plural": _plural(name), "revision": at}
    for name in names:
        if name.startswith(_HISTORY):
            for text in _file(archive, name):
                change = json.loads(text)
                if int(change["revision"]) > revision:
                    yield _change(change, _plural(name))


def _change(change: dict[str, Any], plural: str) -> dict[str, Any]:
    known = {name: change[name] for name in _FIELDS if name in change}
    made = known | {"object": change["object"], "plural": plural, "revision": int(change["revision"])}
    return made | {"time": _milliseconds(change.get("time"))}


def _file(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _plural(name: str) -> str:
    return Path(name).name.partition(".")[0]


def _milliseconds(time: str | None) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000) if time else 0
