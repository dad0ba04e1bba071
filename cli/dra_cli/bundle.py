"""Pack what a bug report needs: objects, their history, logs and versions.

The history is complete since the moment in ``begin.json``; the objects of that moment are below ``begin``. So the
archive shows the cluster at every moment since.
"""

import io
import json
import platform
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dra_kube.changes import stored_resources
from dra_kube.discovery import ServedResource
from dra_kube.reader import Reader
from dra_kube.wholefile import whole_file
from dra_shared import __version__
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN = (".data", ".stringData", f".metadata.annotations.{_APPLIED}")


def redact(secret: JsonObject) -> JsonObject:
    """Return the Secret with empty values, and without the annotation in which `kubectl apply` stores them."""
    made = {**secret}
    if "data" in made:
        made["data"] = dict.fromkeys(made["data"] or {}, "")
    meta = made.get("metadata") or {}
    if _APPLIED in (meta.get("annotations") or {}):
        kept = {name: text for name, text in meta["annotations"].items() if name != _APPLIED}
        made["metadata"] = {**meta, "annotations": kept}
    return made


def redact_change(change: JsonObject) -> JsonObject:
    """Return a change of a Secret, as in `/history`, without old and new values."""
    made = {**change}
    if "object" in made:
        made["object"] = redact(made["object"])
    if "changes" in made:
        made["changes"] = [_field(one) for one in made["changes"]]
    return made


def _field(field: JsonObject) -> JsonObject:
    path = field["path"]
    if not path.startswith(_HIDDEN) and path != ".metadata.annotations":
        return field
    return {name: value if name == "path" else _empty(value) for name, value in field.items()}


def _empty(value: Any) -> Any:
    return {name: _empty(part) for name, part in value.items()} if isinstance(value, dict) else ""


_MOST_CHANGES = 5000
# Leader election and heartbeats, which are useless in another cluster.
_EPHEMERAL = frozenset({"leases", "leasecandidates"})
_LOG_BYTES = 10 << 20
_UNREADABLE = (403, 404, 405)
_EXPIRED = 410
# History may expire while it is read. Then the read is tried again from a later moment, at most so many times;
# each attempt skips one more of so many equal parts of the history.
_MARGINS = 8


def write(reader: Reader, data: Path | None, file: Path, at: str = "", secrets: str = "keys") -> list[str]:
    """Write the archive, and return what could not be read.

    ``data`` is the directory of a dralab cluster. ``at`` is the last moment of the archive; without it, the present.
    ``secrets`` says what to pack of Secrets: their ``keys`` with empty values, their ``values`` too, or ``none``.

    Raises:
        UserError: the file cannot be written, or the API server cannot be reached.
        ApiError: the API server rejects the request for its resources.
    """
    problems: list[str] = []
    with whole_file(file) as written, tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in _contents(reader, data, problems, at, secrets):
            member = tarfile.TarInfo(f"dralab-bundle/{name}")
            member.size, member.mtime = len(content), int(time.time())
            archive.addfile(member, io.BytesIO(content))
    return problems


def _contents(
    reader: Reader, data: Path | None, problems: list[str], at: str, secrets: str
) -> Iterator[tuple[str, bytes]]:
    yield "versions.txt", _versions(reader).encode()
    end = _moment(reader, at)
    before = f"/at/{end['revision']}" if end is not None else ""
    begin = int(end["oldest"]) if end is not None else 0
    resources: list[tuple[ServedResource, bool]] = []
    for resource in stored_resources(reader):
        secret = (resource.group, resource.plural) == ("", "secrets")
        if secret and secrets == "none":
            continue
        hidden = secret and secrets == "keys"
        try:
            objects = _objects(reader, resource, before, hidden)
            if objects:
                yield f"objects/{_name(resource)}.json", _list(objects)
            if end is None:
                continue
            changes, more = _changes(reader, resource, end["revision"], hidden)
            if changes:
                yield f"history/{_name(resource)}.jsonl", b"".join(map(_line, changes))
            if more and resource.plural not in _EPHEMERAL:
                begin = max(begin, int(changes[0]["revision"]))
            resources.append((resource, hidden))
        except ApiError as error:
            if error.code not in _UNREADABLE:
                raise
            problems.append(f"{resource.title}: {error}")
    if end is not None and begin < int(end["revision"]):
        yield from _read_beginning(reader, resources, begin, int(end["revision"]))
    for log in sorted(data.glob("logs/*.log")) if data is not None else ():
        yield f"logs/{log.name}", _tail(log)


def _read_beginning(
    reader: Reader, resources: list[tuple[ServedResource, bool]], begin: int, end: int
) -> list[tuple[str, bytes]]:
    """Return the moment since which the history is complete, and the objects at that moment.

    The oldest history may be deleted while it is read. Then the moment is later than ``begin``.
    """
    for margin in range(1, _MARGINS + 1):
        try:
            return list(_objects_at(reader, resources, str(begin)))
        except ApiError as error:
            if error.code != _EXPIRED:
                raise
        oldest = int(reader.json("/history", {"at": "now"})["oldest"]["revision"])
        begin = max(begin, oldest + (end - oldest) * margin // _MARGINS)
    # Even the last moment has expired, so the archive has no history.
    return []


def _objects_at(
    reader: Reader, resources: list[tuple[ServedResource, bool]], revision: str
) -> Iterator[tuple[str, bytes]]:
    moment = reader.json("/history", {"at": revision})["at"]
    yield "begin.json", json.dumps(moment).encode()
    for resource, hidden in resources:
        objects = (
            [] if resource.plural in _EPHEMERAL else _objects(reader, resource, f"/at/{revision}", hidden)
        )
        if objects:
            yield f"begin/{_name(resource)}.jsonl", b"".join(map(_line, objects))


def _moment(reader: Reader, at: str) -> dict[str, str] | None:
    """Return the last revision of the archive and the oldest that is kept, or None if the server keeps no history.

    Raises:
        UserError: a moment is asked for, and the API server keeps no history.
    """
    try:
        found = reader.json("/history", {"at": at or "now"})
    except ApiError as error:
        if error.code not in _UNREADABLE:
            raise
        if at:
            raise UserError(f"{reader.server}has no history, which --at needs") from error
        return None
    return {"revision": found["at"]["revision"], "oldest": found["oldest"]["revision"]}


def _name(resource: ServedResource) -> str:
    return f"{resource.plural}.{resource.group or 'core'}"


def _versions(reader: Reader) -> str:
    server = reader.json("/version")["gitVersion"]
    python = f"Python {platform.python_version()}, {platform.platform()}"
    return f"dralab {__version__}\nAPI server {server}\n{python}\n"


def _objects(reader: Reader, resource: ServedResource, before: str, hidden: bool) -> list[JsonObject]:
    items: list[JsonObject] = []
    token = ""
    while True:
        page = reader.json(before + resource.path(), {"limit": "500", "continue": token})
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        found = ({**kind, **item} for item in page.get("items") or ())
        items += map(redact, found) if hidden else found
        token = page["metadata"].get("continue", "")
        if not token:
            return items


def _changes(
    reader: Reader, resource: ServedResource, until: str, hidden: bool
) -> tuple[list[JsonObject], bool]:
    """Return the newest changes, and True if there are older ones."""
    params = {"limit": str(_MOST_CHANGES), "objects": "true", "to": until}
    found = reader.json(f"/history{resource.path()}", params)
    items = found.get("items") or []
    return [redact_change(item) for item in items] if hidden else items, bool(found.get("more"))


def _list(items: list[JsonObject]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1).encode()


def _line(change: JsonObject) -> bytes:
    return json.dumps(change).encode() + b"\n"


def _tail(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _LOG_BYTES, 0))
        return file.read()
