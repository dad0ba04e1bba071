"""Location of the reference material, and readers for it."""

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tools.recorded import RECORDED, read

REPOSITORY = Path(__file__).resolve().parents[2]
REFERENCE = Path(os.environ.get("DRALAB_REFERENCE", REPOSITORY.parent / "shared"))


def reference_path(*parts: str) -> Path:
    """Return a path below the reference folder. Skip the test (or module) if it is absent."""
    path = REFERENCE.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"reference material {'/'.join(parts)} not found below {REFERENCE}", allow_module_level=True
        )
    return path


@functools.cache
def load_vectors(name: str) -> list[dict[str, Any]]:
    """Return the cases of ``vectors/<name>``, a gzipped JSON table or gzipped JSON lines, or the recorded sample."""
    sample = RECORDED / f"{name.partition('.')[0]}.jsonl"
    if not REFERENCE.exists() and sample.exists():
        return [json.loads(line) for line in sample.read_text().split("\n") if line]
    return read(reference_path("vectors", name))


def manifest_dir(*parts: str) -> Path:
    """Return a folder (or file) of users' manifests."""
    return reference_path("manifests", *parts)
