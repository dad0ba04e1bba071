"""Where the reference material lies, and how tests read it.

The folder named by ``DRALAB_REFERENCE`` (default: ``../shared`` beside the repository) holds what the real Kubernetes
code answered. It is not part of the project: without it the tests that need it skip and say so.
"""

import functools
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
REFERENCE = Path(os.environ.get("DRALAB_REFERENCE", REPOSITORY.parent / "shared"))


def reference_path(*parts: str) -> Path:
    """A path below the reference folder; skips the test (or module) when it is absent."""
    path = REFERENCE.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"reference material {'/'.join(parts)} not found below {REFERENCE}", allow_module_level=True
        )
    return path


@functools.cache
def load_vectors(name: str) -> list[dict[str, Any]]:
    """The cases of ``vectors/<name>``: a gzipped JSON table, or gzipped JSON lines."""
    path = reference_path("vectors", name)
    with gzip.open(path, "rb") as file:
        if name.endswith(".jsonl.gz"):
            return [json.loads(line) for line in file]
        cases: list[dict[str, Any]] = json.load(file)["cases"]
        return cases


def manifest_dir(*parts: str) -> Path:
    """A folder (or file) of users' manifests."""
    return reference_path("manifests", *parts)
