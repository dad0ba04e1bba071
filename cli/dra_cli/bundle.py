"""All that a bug report needs of a cluster, as one archive: objects, who changed them, logs and versions."""

import io
import json
import platform
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dra_shared import __version__
from dra_shared.client.errors import ApiError

from dra_cli.changes import stored
from dra_cli.discovery import ServedResource
from dra_cli.errors import CommandError
from dra_cli.reader import Reader

Json = dict[str, Any]

# A bug report is read by others.
_SECRET = frozenset({"secrets"})
_MOST_CHANGES = 5000
_LOG_BYTES = 10 << 20
_UNREADABLE = (403, 404, 405)


def write(reader: Reader, data: Path | None, file: Path) -> list[str]:
    """Write the archive; gives what could not be read. ``data`` is the directory of a cluster of ours.

    Raises:
        CommandError: the file cannot be written, or the API server not reached.
        ApiError: the API server refuses to say what it serves.
    """
    problems: list[str] = []
    # A file of that name is there only once it is whole.
    part = file.with_name(f"{file.name}.part")
    try:
        with tarfile.open(part, "w:gz") as archive:
            for name, content in _contents(reader, data, problems):
                member = tarfile.TarInfo(f"dralab-bundle/{name}")
                member.size, member.mtime = len(content), int(time.time())
                archive.addfile(member, io.BytesIO(content))
        part.replace(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    return problems


def _contents(reader: Reader, data: Path | None, problems: list[str]) -> Iterator[tuple[str, bytes]]:
    yield "versions.txt", _versions(reader).encode()
    for resource in stored(reader):
        if resource.plural in _SECRET:
            continue
        name = f"{resource.plural}.{resource.group or 'core'}"
        try:
            objects = _objects(reader, resource)
            if objects:
                yield f"objects/{name}.json", _list(objects)
            changes = _changes(reader, resource)
            if changes:
                yield f"history/{name}.jsonl", b"".join(map(_line, changes))
        except ApiError as error:
            if error.code not in _UNREADABLE:
                raise
            problems.append(f"{resource.title}: {error}")
    for log in sorted(data.glob("logs/*.log")) if data is not None else ():
        yield f"logs/{log.name}", _end(log)


def _versions(reader: Reader) -> str:
    server = reader.json("/version")["gitVersion"]
    python = f"Python {platform.python_version()}, {platform.platform()}"
    return f"dralab {__version__}\nAPI server {server}\n{python}\n"


def _objects(reader: Reader, resource: ServedResource) -> list[Json]:
    items: list[Json] = []
    token = ""
    while True:
        page = reader.json(resource.path(), {"limit": "500", "continue": token})
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        items += ({**kind, **item} for item in page.get("items") or ())
        token = page["metadata"].get("continue", "")
        if not token:
            return items


def _changes(reader: Reader, resource: ServedResource) -> list[Json]:
    """The newest changes; none where the API server keeps no history."""
    try:
        params = {"limit": str(_MOST_CHANGES), "objects": "true"}
        found = reader.json(f"/history{resource.path()}", params)
    except ApiError as error:
        if error.code not in _UNREADABLE:
            raise
        return []
    items: list[Json] = found.get("items") or []
    return items


def _list(items: list[Json]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1).encode()


def _line(change: Json) -> bytes:
    return json.dumps(change).encode() + b"\n"


def _end(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _LOG_BYTES, 0))
        return file.read()
