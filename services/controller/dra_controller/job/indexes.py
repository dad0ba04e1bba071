"""Completion indexes, as text (``1,3-5``) and as sets.

Mirrors pkg/controller/job/indexed_job_utils.go.
"""

from collections.abc import Iterable

from dra_shared.api.meta import Object

INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Object) -> int | None:
    """Return the completion index of the pod; None if it has no valid one."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def parse_indexes(text: str) -> set[int]:
    """Return the indexes that ``text`` lists. Parts that cannot be read are left out."""
    result: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            result.update(range(int(first), int(last or first) + 1))
    return result


def text_of(indexes: Iterable[int]) -> str:
    """Return the indexes in order as text. Runs of three or more are shortened, as upstream does."""
    parts: list[str] = []
    run: list[int] = []

    def flush() -> None:
        if len(run) >= 3:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts.extend(map(str, run))

    for index in sorted(indexes):
        if run and index != run[-1] + 1:
            flush()
            run = []
        run.append(index)
    flush()
    return ",".join(parts)
