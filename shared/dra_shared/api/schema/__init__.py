"""Data about every served kind: the table of kinds and the schemas of their objects.

``kinds.json`` has the kinds, with their versions, verbs, subresources and selectable fields, one kind a line.
``descriptions.yaml`` describes types and their members for ``kubectl explain``. ``make schemas`` writes the
other files, one field a line, from the Go types that ``tools/schemas/sources.toml`` pins. Each file is read
on first use.
"""

from importlib.resources import files


def kinds_document() -> bytes:
    """Return the JSON table of groups and kinds."""
    return (files(__name__) / "kinds.json").read_bytes()


def schema_document(package: str) -> bytes | None:
    """Return the JSON schemas of one package of types, such as ``io.k8s.api.core.v1``; None if it has none."""
    path = files(__name__) / f"{package}.json"
    return path.read_bytes() if path.is_file() else None


def descriptions_document() -> bytes:
    """Return the YAML descriptions of the types of resource.k8s.io, by type and member."""
    return (files(__name__) / "descriptions.yaml").read_bytes()


def protobuf_document() -> bytes:
    """Return the JSON table of protobuf messages: package, type, and the JSON name and type of each field number."""
    return (files(__name__) / "protobuf.json").read_bytes()
