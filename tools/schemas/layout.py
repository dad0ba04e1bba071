"""Write the schema files: sorted, one field a line, so that a diff shows each change as a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def dump_types(types: dict[str, Any]) -> str:
    """Format the types of a package, a property a line."""
    return _object({name: _type(types[name]) for name in sorted(types)}, 0) + "\n"


def dump_messages(packages: dict[str, Any]) -> str:
    """Format packages of protobuf messages, a message a line."""
    shown = {
        package: _object({name: _line(messages[name]) for name in sorted(messages)}, 1)
        for package, messages in sorted(packages.items())
    }
    return _object(shown, 0) + "\n"


def dump_kinds(document: dict[str, Any]) -> str:
    """Format the groups in discovery's order, and the kinds, a kind a line."""
    lines = ",\n".join("  " + json.dumps(entry) for entry in document["kinds"])
    return '{"groups": ' + json.dumps(document["groups"]) + ',\n "kinds": [\n' + lines + "\n]}\n"


def _type(schema: dict[str, Any]) -> str:
    members = {name: _line(schema[name]) for name in sorted(schema) if name != "properties"}
    if "properties" in schema:
        properties = schema["properties"]
        members["properties"] = _object({name: _line(properties[name]) for name in sorted(properties)}, 2)
    return _object(dict(sorted(members.items())), 1)


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _object(members: dict[str, str], depth: int) -> str:
    return (
        "{\n" + ",\n".join(_members(members, "  " * (depth + 1))) + "\n" + "  " * depth + "}"
        if members
        else "{}"
    )


def _members(members: dict[str, str], indent: str) -> Iterator[str]:
    for name, text in members.items():
        yield f"{indent}{json.dumps(name)}: {text}"
