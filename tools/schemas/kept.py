"""Find fields and kinds that only other versions of Kubernetes have. They stay in the schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from dra_shared.version import Version, release
from dra_shared.version.release import changes

Packages = dict[str, dict[str, Any]]
"""Types, or protobuf messages, by package and name."""

_STAGED = re.compile(r"(?:alpha|beta|standard)\((\d+)\.(\d+)\)")
_REFERENCE = re.compile(r'"(?:#/components/schemas/)?(io\.k8s\.[\w.-]+)\.(\w+)"')


def kinds_of(kinds: list[dict[str, Any]], version: Version) -> list[dict[str, Any]]:
    """Return the kinds in the versions that one Kubernetes version serves."""
    has = release(version)

    def list_served(entry: dict[str, Any]) -> list[str]:
        group = f"{entry['group']}/" if entry["group"] else ""
        return [name for name in entry["versions"] if has.serves(f"{group}{name}", entry["plural"])]

    return [{**entry, "versions": found} for entry in kinds if (found := list_served(entry))]


def keep(made: Packages, known: Packages, kinds: list[dict[str, Any]], version: Version) -> None:
    """Add to the types of ``version`` the fields, kinds and types that ``known`` has for other versions."""
    for package, type_name, field in _other_fields(version):
        old = known.get(package, {}).get(type_name)
        new = made.get(package, {}).get(type_name)
        if old is not None and new is not None and field in old.get("properties", {}):
            made[package][type_name] = _with_field(new, old, field)
    for package, types in made.items():
        for type_name, schema in types.items():
            before = known.get(package, {}).get(type_name, {}).get("properties", {})
            for field, spec in schema.get("properties", {}).items():
                _keep_stages(spec, before.get(field, {}), version)
    has = kinds_of(kinds, version)
    for entry in kinds:
        there: list[str] = next((one["versions"] for one in has if _place(one) == _place(entry)), [])
        for name in set(entry["versions"]) - set(there):
            for package in known:
                for kind in (entry["kind"], f"{entry['kind']}List"):
                    found = known[package].get(kind)
                    if found is not None and _is(found, entry["group"], name):
                        made.setdefault(package, {}).setdefault(kind, found)
    _keep_referred(made, known)


def _keep_stages(made: dict[str, Any], known: dict[str, Any], version: Version) -> None:
    """Keep the stages that rules get in later versions, and rules that only later versions have."""
    rules: list[str] = made.get("x-rules", [])
    for text in known.get("x-rules", ()):
        stages, rest = _split_stages(text)
        until = [word for word, since in stages if since <= version]
        if len(until) == len(stages) or text in rules:
            continue
        now = f"{' '.join(until)}: {rest}"
        if until and now in rules:
            rules[rules.index(now)] = text
        elif not until:
            made["x-rules"] = rules = [*rules, text]


def _split_stages(rule: str) -> tuple[list[tuple[str, Version]], str]:
    """Return the stages of a rule such as ``alpha(1.37) beta(1.38): optional`` with their versions, and the rest
    of the rule.
    """
    first, _, rest = rule.partition(": ")
    found = [(word, _STAGED.fullmatch(word)) for word in first.split()]
    if not all(match for _, match in found):
        return [], rule
    return [(word, Version(int(match[1]), int(match[2]))) for word, match in found if match], rest


def keep_messages(made: Packages, known: Packages, schemas: Packages, version: Version) -> None:
    """Add to the messages of ``version`` the fields that ``known`` has for other versions, for the types in
    ``schemas``.
    """
    for package, type_name, field in _other_fields(version):
        old = known.get(package, {}).get(type_name, {})
        new = made.get(package, {}).get(type_name)
        for number, entry in old.items():
            if new is not None and entry[0] == field:
                new.setdefault(number, entry)
    for package, types in known.items():
        if package not in made:
            made[package] = types
        for name in schemas.get(package, {}).keys() & types.keys():
            made[package].setdefault(name, types[name])


def _other_fields(version: Version) -> Iterator[tuple[str, str, str]]:
    """Return the package, type and name of each field that ``version`` does not have."""
    has = release(version)
    for package, name in changes("field"):
        type_name, _, field = name.partition(".")
        if not has.has_field(package, type_name, field):
            yield full_name(package), type_name, field


def full_name(package: str) -> str:
    """Return the full name of the package that the pages abbreviate, such as ``resource/v1``."""
    if package.startswith("meta/"):
        return f"io.k8s.apimachinery.pkg.apis.{package.replace('/', '.')}"
    if package.startswith("apiextensions/"):
        return f"io.k8s.apiextensions-apiserver.pkg.apis.{package.replace('/', '.')}"
    return f"io.k8s.api.{package.replace('/', '.')}"


def _with_field(new: dict[str, Any], old: dict[str, Any], field: str) -> dict[str, Any]:
    """Return the type with one more field, at its position in ``old``."""
    properties = {**new.get("properties", {}), field: old["properties"][field]}
    merged = {**new, "properties": properties}
    for key in ("x-order", "required"):
        if field in old.get(key, ()):
            names = [*new.get(key, ()), field]
            in_old = [name for name in old[key] if name in names]
            merged[key] = in_old + [name for name in names if name not in in_old]
    return merged


def _keep_referred(made: Packages, known: Packages) -> None:
    """Add the types to which the existing types refer."""
    while True:
        missing = [
            (package, name)
            for package, name in set(_REFERENCE.findall(json.dumps(made)))
            if name not in made.get(package, {}) and name in known.get(package, {})
        ]
        if not missing:
            return
        for package, name in missing:
            made.setdefault(package, {})[name] = known[package][name]


def _place(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["group"], entry["plural"]


def _is(schema: dict[str, Any], group: str, version: str) -> bool:
    return any(
        (one["group"], one["version"]) == (group, version)
        for one in schema.get("x-kubernetes-group-version-kind", ())
    )
