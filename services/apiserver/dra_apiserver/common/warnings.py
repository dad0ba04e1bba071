"""Common parts of warnings."""

from __future__ import annotations

from collections.abc import Iterator

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label


def annotations_of(obj: JsonObject) -> JsonObject:
    return obj["metadata"].get("annotations") or {}


def spec_of(obj: JsonObject) -> JsonObject:
    return obj.get("spec") or {}


def name_warnings(
    obj: JsonObject, old: JsonObject | None, used: str = "in Pod names and hostnames"
) -> Iterator[str]:
    if old is None and (problems := dns_label(obj["metadata"].get("name", ""))):
        yield (
            f"metadata.name: this is used {used}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(problems)}]"
        )


def template_changed(obj: JsonObject, old: JsonObject | None) -> bool:
    return old is None or obj["metadata"].get("generation") != old["metadata"].get("generation")
