"""Data about every served kind: the table of kinds and the schemas of their objects.

``kinds.json`` has the kinds, their versions, verbs, subresources and selectable fields, a kind a line.
``descriptions.yaml`` describes types and their members for ``kubectl explain``. The other files are written by ``make
schemas`` from the Go types that ``tools/schemas/sources.toml`` pins, a field a line. All are read when first asked for.
"""

from importlib.resources import files


def kinds_document() -> bytes:
    """The JSON table of groups and kinds."""
    return (files(__name__) / "kinds.json").read_bytes()


def schema_document(package: str) -> bytes | None:
    """The JSON schemas of one package of types, such as ``io.k8s.api.core.v1``; None where there is none."""
    path = files(__name__) / f"{package}.json"
    return path.read_bytes() if path.is_file() else None


def descriptions_document() -> bytes:
    """The YAML descriptions of the types of resource.k8s.io: type to member to text."""
    return (files(__name__) / "descriptions.yaml").read_bytes()


def protobuf_document() -> bytes:
    """The JSON table of protobuf messages: package, type, field number to JSON name and type."""
    return (files(__name__) / "protobuf.json").read_bytes()
