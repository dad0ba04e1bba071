"""KubeSchedulerConfiguration: every recorded file is read as by the real scheduler."""

from typing import Any

from dra_recordings.schedulerconfig import agrees, answer

from tests.support.reference import load_vectors


def _same(ours: dict[str, Any], recorded: dict[str, Any]) -> bool:
    """True if the answers agree and the error texts are equal, which are those of Go."""
    texts = ("decodeError", "schedulerError")
    return agrees(ours, recorded) and all(ours.get(key) == recorded.get(key) for key in texts)


def test_every_recorded_file_is_read_as_upstream() -> None:
    cases = load_vectors("scheduler_config.json.gz")
    assert cases
    assert [case["name"] for case in cases if not _same(answer(case["input"]), case["actual"])] == []
