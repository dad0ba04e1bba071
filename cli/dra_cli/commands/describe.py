"""``dralab describe``: print an object's fields as an outline, and its events."""

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dra_cli.access import chosen_cluster, cluster_options, moment_option
from dra_cli.commandline import Parser
from dra_cli.commands.events import last_seen, row

if TYPE_CHECKING:
    from dra_kube.reader import Reader

_INDENT = "  "
# The boundaries of words in a camel-case name. DownwardAPI and PodIPs have two words.
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# Fields that are left out of the outline, or shown in its head; `get -o yaml` has them.
_LEFT_OUT = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "name",
    "namespace",
    "labels",
    "annotations",
)
_EVENTS = ("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("what", nargs="+", help="KIND NAME…, KIND/NAME…, or KIND for all of them")
    parser.add_argument("--namespace", "-n", help="namespace (default: default)")
    parser.add_argument("--selector", "-l", help="label selector")
    moment_option(parser)
    cluster_options(parser)


def run(chosen: argparse.Namespace) -> None:
    """Print each object."""
    from dra_kube.selection import discover, select

    with chosen_cluster(chosen).reader() as reader:
        blocks = []
        for one in select(discover(reader, chosen.what), chosen.what):
            namespace = (chosen.namespace or "default") if one.resource.namespaced else None
            for name in one.names or (None,):
                body = reader.json(one.resource.path(namespace, name), {"labelSelector": chosen.selector})
                for obj in body.get("items", [body]):
                    obj.setdefault("kind", one.resource.kind)
                    blocks.append("\n".join(_lines(reader, obj)))
        print("\n\n\n".join(blocks) if blocks else "No resources found.")


def _lines(reader: "Reader", obj: dict[str, Any]) -> Iterator[str]:
    meta = obj["metadata"]
    head: dict[str, Any] = {"Name": meta["name"]}
    if meta.get("namespace"):
        head["Namespace"] = meta["namespace"]
    head["Labels"] = _pairs(meta.get("labels"))
    head["Annotations"] = _pairs(meta.get("annotations"))
    yield from _outline(head)
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion", "kind")}
    yield from _outline(
        {"Metadata": {key: value for key, value in meta.items() if key not in _LEFT_OUT}, **rest}
    )
    yield from _events(reader, obj)


def _outline(value: dict[str, Any], indent: str = "") -> Iterator[str]:
    widest = max(
        (len(_title(key)) for key, entry in value.items() if not _has_lines_of_its_own(entry)), default=0
    )
    for key, entry in value.items():
        title = _title(key)
        if isinstance(entry, dict) and entry:
            yield f"{indent}{title}:"
            yield from _outline(entry, indent + _INDENT)
        elif isinstance(entry, list) and _has_lines_of_its_own(entry):
            yield f"{indent}{title}:"
            for number, one in enumerate(entry):
                yield from _item(one, indent + _INDENT, number)
        elif isinstance(entry, list) and entry:
            first, *others = [line for one in entry for line in str(one).splitlines() or [""]]
            gap = " " * (widest + 2)
            yield f"{indent}{title + ':':{widest + 2}}{first}"
            yield from (f"{indent}{gap}{line}" for line in others)
        else:
            yield f"{indent}{title + ':':{widest + 2}}{_scalar(entry)}"


def _has_lines_of_its_own(entry: Any) -> bool:
    """True if the value starts on a line below its title: an object, or a list of objects."""
    first = entry[0] if isinstance(entry, list) and entry else ""
    return bool(entry) and (isinstance(entry, dict) or not isinstance(first, str | int | float))


def _item(value: Any, indent: str, number: int) -> Iterator[str]:
    """Yield the lines of a list's entry. Its title is its name, if it has one."""
    if not isinstance(value, dict):
        yield f"{indent}- {_scalar(value)}"
        return
    name = next(
        (str(value[key]) for key in ("name", "type", "request") if isinstance(value.get(key), str)), ""
    )
    yield f"{indent}{name or number}:"
    yield from _outline({key: entry for key, entry in value.items() if entry != name}, indent + _INDENT)


def _title(key: str) -> str:
    """Return a field's name as words: nodeName becomes Node Name."""
    words = _WORDS.sub(" ", key)
    return key if "/" in key or "." in key else words[:1].upper() + words[1:] if key[:1].islower() else key


def _scalar(value: Any) -> str:
    if value is None or value in ({}, []):
        return "<none>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pairs(values: dict[str, str] | None) -> list[str] | str:
    return [f"{key}={value}" for key, value in sorted((values or {}).items())] or "<none>"


def _events(reader: "Reader", obj: dict[str, Any]) -> Iterator[str]:
    from dra_kube.tables import Table

    meta = obj["metadata"]
    selector = f"involvedObject.name={meta['name']},involvedObject.kind={obj['kind']}"
    namespace = meta.get("namespace") or "default"
    listed = reader.json(f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": selector})
    found = sorted(listed["items"], key=last_seen)
    if not found:
        yield "Events:  <none>"
        return
    yield "Events:"
    table = Table(_EVENTS).text([row(event) for event in found])
    yield from (_INDENT + line for line in table.splitlines())
