"""Writes the schema files of shared/dra_shared/api/schema.

    python -m tools.schemas [FOLDER]

FOLDER keeps bare clones of the repositories that sources.toml pins; those that are missing are cloned. The kinds, their
versions and verbs are those of kinds.json, which is written by hand but for its deprecations.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.schemas.layout import dump_kinds, dump_messages, dump_types
from tools.schemas.lifecycles import deprecations
from tools.schemas.openapi import definitions, go_package
from tools.schemas.protobuf import layouts
from tools.schemas.sources import Release, Source, clone

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "shared/dra_shared/api/schema"


def main(folder: Path) -> None:
    """Make all files."""
    release = Release.read()
    folder.mkdir(parents=True, exist_ok=True)
    for pin in release.pins.values():
        clone(pin, folder)
    source = Source(folder, release)
    kinds = json.loads((TARGET / "kinds.json").read_text())
    packages: dict[str, dict[str, Any]] = {}
    for name, schema in definitions(source, kinds["kinds"]).items():
        package, _, short = name.rpartition(".")
        packages.setdefault(package, {})[short] = schema
    for file in TARGET.glob("io.*.json"):
        file.unlink()
    for package, types in packages.items():
        (TARGET / f"{package}.json").write_text(dump_types(types))
    messages = {}
    for package in sorted(packages):
        if found := go_package(f"{package}.Any"):
            messages[package] = layouts(source, source.package(found[0]))
    (TARGET / "protobuf.json").write_text(dump_messages(messages))
    deprecations(source, kinds, release.minor)
    (TARGET / "kinds.json").write_text(dump_kinds(kinds))
    print(
        f"{sum(map(len, packages.values()))} types in {len(packages)} packages of Kubernetes {release.version}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".schemas")
