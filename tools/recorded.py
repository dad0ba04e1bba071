"""Write ``tests/data/recorded`` again: a small sample of the recorded answers of the real Kubernetes.

``python -m tools.recorded [VECTORS]`` reads the whole tables (``../shared/vectors``, or wherever
``DRALAB_REFERENCE`` points) and writes a file of JSON lines for each. The sample is the same in every run: a
table's cases are grouped by topic and outcome, and the groups add their smallest cases in turn until the size
limit of the table is reached.
"""

import gzip
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dra_shared.jsontypes import JsonObject

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "data" / "recorded"
# Tables whose inputs were made by our own generators. Others have upstream's inputs, which we do not copy.
TABLES = ("random-alloc", "random-cel", "random-validate")
# The maximum size of the sample of each table.
_BYTES = 95_000
_TOPICS = ("suite", "test", "kind", "operation", "features", "featureGates", "apiVersion", "implementation")


def read(path: Path) -> list[JsonObject]:
    """Return the cases of a gzipped table, or of gzipped JSON lines."""
    with gzip.open(path, "rb") as file:
        if path.name.endswith(".jsonl.gz"):
            return [json.loads(line) for line in file]
        cases: list[JsonObject] = json.load(file)["cases"]
        return cases


def sample(cases: Iterable[JsonObject], budget: int = _BYTES) -> list[str]:
    """Return the lines of a sample of at most ``budget`` bytes, in the table's order."""
    groups: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for place, case in enumerate(cases):
        groups[_topic(case)].append((place, json.dumps(case, ensure_ascii=False) + "\n"))
    for group in groups.values():
        group.sort(key=lambda entry: (len(entry[1]), entry[0]))
    chosen: list[tuple[int, str]] = []
    left = budget
    for place, line in _in_turn([groups[topic] for topic in sorted(groups)]):
        size = len(line.encode())
        if size <= left or not chosen:
            chosen.append((place, line))
            left -= size
    return [line for _, line in sorted(chosen)]


def _in_turn(groups: list[list[tuple[int, str]]]) -> list[tuple[int, str]]:
    rounds = itertools.zip_longest(*groups)
    return [entry for entries in rounds for entry in sorted(filter(None, entries), key=lambda e: len(e[1]))]


def _topic(case: JsonObject) -> str:
    """Return a key of the case's topic and outcome."""
    topics = {name: case[name] for name in _TOPICS if name in case}
    return json.dumps([topics, _outcome(case)], sort_keys=True)


def _outcome(case: JsonObject) -> Any:
    out: JsonObject = case.get("out") or case.get("actual") or {}
    server: JsonObject | None = case.get("server") or out.get("server")
    if "claims" in (given := case.get("in", case)):
        return bool(given["claims"]), out.get("incubating", out).get("allocated")
    if server:
        return server.get("allowed"), sorted({error["type"] for error in server.get("errors") or ()})
    return sorted(out), out.get("match")


def make(vectors: Path) -> dict[str, str]:
    """Return the sample's files by name."""
    found = sorted(path for table in TABLES for path in vectors.glob(f"{table}.json*.gz"))
    return {f"{path.name.partition('.')[0]}.jsonl": "".join(sample(read(path))) for path in found}


def main() -> None:
    reference = Path(os.environ.get("DRALAB_REFERENCE", "../shared"))
    vectors = Path(sys.argv[1]) if len(sys.argv) > 1 else reference / "vectors"
    files = make(vectors)
    if not files:
        raise SystemExit(f"error: no tables in {vectors}")
    RECORDED.mkdir(exist_ok=True)
    for name, text in files.items():
        (RECORDED / name).write_text(text)
    print(f"{len(files)} files, {sum(text.count(chr(10)) for text in files.values())} cases")


if __name__ == "__main__":
    main()
