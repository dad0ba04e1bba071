"""KubeSchedulerConfiguration: every recorded file, as the real scheduler reads it."""

from typing import Any

from dra_recordings.schedulerconfig import agrees, answer

from tests.support.reference import load_vectors


def _same(ours: dict[str, Any], recorded: dict[str, Any]) -> bool:
    """Beyond what has to agree: our texts are Go's, too."""
    texts = ("decodeError", "schedulerError")
    return agrees(ours, recorded) and all(ours.get(key) == recorded.get(key) for key in texts)


def test_every_file_is_read_as_upstream_reads_it() -> None:
    cases = load_vectors("scheduler_config.json.gz")
    assert cases
    assert [case["name"] for case in cases if not _same(answer(case["input"]), case["actual"])] == []
