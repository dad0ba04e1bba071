"""Write the resources and fields that the API servers of Kubernetes releases serve to tests/data/served.

    python -m tools.served

Reads the discovery and OpenAPI documents that k8s.io/kubernetes has in `api`. Needs Go, which downloads the
module. Then run ``tests/apiserver/openapi/test_served``, which compares our server with these files.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.version import VERSIONS, release

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "tests/data/served"


def main() -> None:
    """Write a file for each version."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        folder = _download(release(version).patch) / "api"
        discovery = json.loads((folder / "discovery/aggregated_v2.json").read_text())
        core = json.loads((folder / "discovery/api__v1.json").read_text())
        documents = [json.loads(path.read_text()) for path in (folder / "openapi-spec/v3").glob("*.json")]
        lines = [*format_resources(discovery), *format_core(core), *format_types(documents)]
        (TARGET / f"{version}.txt").write_text("".join(f"{line}\n" for line in sorted(lines)))
        print(f"{len(lines)} resources and types in Kubernetes {release(version).patch}")


def format_resources(discovery: JsonObject) -> Iterator[str]:
    """Yield a line for each resource and subresource of an aggregated discovery document, with its verbs."""
    for group in discovery["items"]:
        for version in group["versions"]:
            where = f"{group['metadata'].get('name', '')}/{version['version']}"
            for resource in version["resources"]:
                yield _resource(where, resource["resource"], resource["responseKind"], resource["verbs"])
                for sub in resource.get("subresources") or ():
                    name = f"{resource['resource']}/{sub['subresource']}"
                    yield _resource(where, name, sub["responseKind"], sub["verbs"])


def format_core(discovery: JsonObject) -> Iterator[str]:
    """Yield the same lines for the discovery document of the core group, which has the older form."""
    for resource in discovery["resources"]:
        yield _resource("/v1", resource["name"], resource, resource["verbs"])


def format_types(documents: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return a line for each type with fields in OpenAPI documents. Required fields end with an exclamation mark."""
    lines = set[str]()
    for document in documents:
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            required = schema.get("required", ())
            fields = sorted(field + "!" * (field in required) for field in schema.get("properties", ()))
            if fields:
                lines.add(" ".join(["type", name, *fields]))
    return lines


def _resource(where: str, name: str, kind: Mapping[str, str], verbs: Iterable[str]) -> str:
    return " ".join(["resource", where, name, kind["kind"], ",".join(sorted(verbs))])


def _download(patch: str) -> Path:
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{patch}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(found.stdout)["Dir"])


if __name__ == "__main__":
    main()
