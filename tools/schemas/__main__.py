"""Write the schema files of shared/dra_shared/api/schema.

    python -m tools.schemas

The types are those of the Go modules that sources.toml pins, which `go` downloads. The kinds, their versions
and verbs are those of kinds.json, which is written by hand except for its deprecations. Fields and kinds that
only other versions of Kubernetes have are kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dra_shared.version import Version

from tools.schemas.kept import keep, keep_messages, kinds_of
from tools.schemas.layout import dump_kinds, dump_messages, dump_types
from tools.schemas.lifecycles import deprecations
from tools.schemas.openapi import definitions, go_package
from tools.schemas.protobuf import layouts
from tools.schemas.sources import Release, Source, download

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "shared/dra_shared/api/schema"


def main() -> None:
    """Write all files."""
    release = Release.read()
    source = Source({name: download(name, release) for name in release.sums})
    kinds = json.loads((TARGET / "kinds.json").read_text())
    version = Version.parse(release.version)
    own = kinds_of(kinds["kinds"], version)
    packages: dict[str, dict[str, Any]] = {}
    for name, schema in definitions(source, own).items():
        package, _, short = name.rpartition(".")
        packages.setdefault(package, {})[short] = schema
    messages = {}
    for package in sorted(packages):
        if found := go_package(f"{package}.Any"):
            messages[package] = layouts(source, source.package(found[0]))
    keep(packages, _known_types(), kinds["kinds"], version)
    keep_messages(messages, json.loads((TARGET / "protobuf.json").read_text()), packages, version)
    for file in TARGET.glob("io.*.json"):
        file.unlink()
    for package, types in packages.items():
        (TARGET / f"{package}.json").write_text(dump_types(types))
    (TARGET / "protobuf.json").write_text(dump_messages(messages))
    deprecations(source, {"kinds": own}, release.minor)
    _take_over(kinds["kinds"], own)
    (TARGET / "kinds.json").write_text(dump_kinds(kinds))
    print(
        f"{sum(map(len, packages.values()))} types in {len(packages)} packages of Kubernetes {release.version}"
    )


def _known_types() -> dict[str, dict[str, Any]]:
    """Return the types in the existing files."""
    return {file.stem: json.loads(file.read_text()) for file in TARGET.glob("io.*.json")}


def _take_over(kinds: list[dict[str, Any]], own: list[dict[str, Any]]) -> None:
    """Set the deprecations of the versions that the release has, and keep those of other versions."""
    found = {(entry["group"], entry["plural"]): entry for entry in own}
    for entry in kinds:
        mine = found.get((entry["group"], entry["plural"]))
        if mine is None:
            continue
        others = {
            version: text
            for version, text in entry.pop("deprecated", {}).items()
            if version not in mine["versions"]
        }
        if texts := {**mine.get("deprecated", {}), **others}:
            entry["deprecated"] = texts


if __name__ == "__main__":
    main()
