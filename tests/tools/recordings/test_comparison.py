import gzip
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from dra_kube.progress import Progress
from dra_recordings.comparison import SUBJECTS, answers, compare
from dra_shared.errors import UserError

from tests.support.reference import reference_path

CASE = {"expression": "true", "driver": "gpu.example.com", "device": {}, "features": []}

_AS_1_36 = {"kubernetesVersions": ["1.36"]}


def _cel_lines(path: Path, *outs: dict[str, object]) -> Path:
    path.write_bytes(
        b"\n".join(
            orjson.dumps({"in": {**CASE, "name": f"case-{number}"}, "out": out})
            for number, out in enumerate(outs)
        )
    )
    return path


def test_the_summary_counts_agreeing_cases_and_names_the_others(tmp_path: Path) -> None:
    ((_, right),) = answers("cel", _cel_lines(tmp_path / "in.jsonl", {}))
    assert right["match"] is True
    file = _cel_lines(tmp_path / "mixed.jsonl", right, {**right, "match": False})
    summary, agree = compare("cel", file)
    assert summary == {"cases": 2, "agree": 1, "disagree": ["case-1"], **_AS_1_36}
    assert not agree


def test_a_case_agrees_with_any_recorded_outcome_and_panics_are_not_compared(tmp_path: Path) -> None:
    ((_, right),) = answers("cel", _cel_lines(tmp_path / "in.jsonl", {}))
    wrong = {**right, "match": False}
    lines = [
        {"in": {**CASE, "name": "either"}, "out": wrong, "outcomes": [wrong, right]},
        {"in": {**CASE, "name": "neither"}, "out": wrong, "outcomes": [wrong, wrong]},
        {"in": {**CASE, "name": "panics"}, "out": {"panic": "index out of range"}},
    ]
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert compare("cel", file) == (
        {"cases": 2, "agree": 1, "disagree": ["neither"], **_AS_1_36, "panics": 1},
        False,
    )


def test_cases_are_run_with_the_requested_version(tmp_path: Path) -> None:
    slice_spec = {
        "driver": "d.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [{"name": "a", "attributes": {"model": {}}}],
    }
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    file = tmp_path / "slice.jsonl"
    file.write_bytes(orjson.dumps({"in": {"object": {**kind, "spec": slice_spec}}, "out": {}}))
    types = [
        error["type"]
        for version in ("1.34", "1.36")
        for _, answer in answers("validate", file, version)
        for error in answer["server"]["errors"]
    ]
    assert types == ["FieldValueRequired", "FieldValueInvalid"]


_INCLUDES = {**CASE, "expression": "'abc'.includes('a')", "features": ["DRAListTypeAttributes"]}


def _cost_by(file: Path, asked: str = "") -> tuple[str, int]:
    ((version, answer),) = answers("cel", file, asked)
    return version, answer["estimatedCost"]


def test_a_recording_is_run_with_the_version_in_its_name(tmp_path: Path) -> None:
    in_1_36, in_1_37 = ("1.36", 48), ("1.37", 3)
    case: dict[str, Any] = {"in": _INCLUDES, "out": {}}
    for name, content, expected in (
        ("plain.jsonl", case, in_1_36),
        ("random-cel-1.37.jsonl", case, in_1_37),
        ("v1.37.2-cel.jsonl", case, in_1_37),
        ("seed-11.375.jsonl", case, in_1_36),
        ("between-1.36-1.37.jsonl", case, in_1_36),
        ("line.jsonl", {**case, "kubernetesVersion": "v1.37.0"}, in_1_37),
        ("of-1.36.jsonl", {**case, "in": {**_INCLUDES, "kubernetesVersion": "1.37"}}, in_1_37),
        ("source.json", {"source": {"version": "1.37.0"}, "cases": [{"input": _INCLUDES}]}, in_1_37),
        ("table-1.36.json", {"kubernetesVersion": "1.37", "cases": [{"input": _INCLUDES}]}, in_1_37),
    ):
        file = tmp_path / name
        file.write_bytes(orjson.dumps(content))
        assert _cost_by(file) == expected, name
        assert [_cost_by(file, "1.36"), _cost_by(file, "v1.37.1")] == [in_1_36, in_1_37], name


def test_the_summary_names_each_version_that_was_used(tmp_path: Path) -> None:
    lines = [{"in": {**CASE, "kubernetesVersion": v}, "out": {}} for v in ("1.37.2", "1.35", "1.37")]
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert compare("cel", file)[0]["kubernetesVersions"] == ["1.35", "1.37"]


@pytest.mark.parametrize(("named", "asked"), [("1.99", ""), ("1.37", "1.99")])
def test_an_unknown_version_is_rejected(tmp_path: Path, named: str, asked: str) -> None:
    file = tmp_path / "case.jsonl"
    file.write_bytes(orjson.dumps({"in": {**CASE, "kubernetesVersion": named}, "out": {}}))
    with pytest.raises(UserError, match=r"unknown Kubernetes version '1\.99'") as caught:
        compare("cel", file, asked)
    assert caught.value.code == 2
    # Another version can be asked for.
    assert compare("cel", file, "1.36")[0]["kubernetesVersions"] == ["1.36"]


def test_scheduler_configurations_get_the_defaults_of_their_version(tmp_path: Path) -> None:
    file = tmp_path / "config.jsonl"
    yaml = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    file.write_bytes(orjson.dumps({"in": {"yaml": yaml}, "out": {}}))
    plugins = [
        {plugin["name"] for plugin in profile["plugins"]["filter"]}
        for version in ("1.34", "1.36")
        for _, answer in answers("scheduler-config", file, version)
        for profile in answer["profiles"].values()
    ]
    assert plugins[0] < plugins[1]


def test_gzipped_recordings_are_read(tmp_path: Path) -> None:
    ((_, right),) = answers("cel", _cel_lines(tmp_path / "in.jsonl", {}))
    plain = _cel_lines(tmp_path / "plain.jsonl", right)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert compare("cel", packed) == ({"cases": 1, "agree": 1, "disagree": [], **_AS_1_36}, True)


_NEW_IN_1_37 = reference_path("reference", "kubernetes-1.37", "allocator-new-since-1.36.2.json")


@pytest.mark.skipif(not _NEW_IN_1_37.exists(), reason="no reference material")
def test_tables_of_upstream_cases_are_read_unchanged() -> None:
    assert compare("alloc", _NEW_IN_1_37, "1.37") == (
        {"cases": 4, "agree": 4, "disagree": [], "kubernetesVersions": ["1.37"]},
        True,
    )
    summary, agree = compare("alloc", _NEW_IN_1_37, "1.36")
    assert not agree
    assert summary["disagree"] == [
        "with-claim-config-for-two-requests",
        "claim-config-covering-all-requests-is-cleared",
    ]


def test_a_case_with_answers_of_several_allocators_is_compared_with_each(tmp_path: Path) -> None:
    node = {"metadata": {"name": "n"}}
    case = {"name": "nothing-wanted", "features": [], "node": node, "claims": []}
    none = {"supported": False, "allocated": False, "results": None}
    asked = {"supported": True, "allocated": True, "results": []}
    first, second = ({"incubating": one, "experimental": asked} for one in (none, asked))
    wrong = {"incubating": {**asked, "error": "no"}, "experimental": asked}
    file = tmp_path / "table.json"
    file.write_bytes(orjson.dumps({"cases": [{**case, "actual": one} for one in (first, second, wrong)]}))
    assert compare("alloc", file) == (
        {"cases": 3, "agree": 2, "disagree": ["nothing-wanted"], **_AS_1_36},
        False,
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1"),
        (
            b'{"out": {}}',
            "line 1: not a recorded case: it must be a JSON object whose field `in` is an object",
        ),
        (b'{"in": {"expression": "true"}}', "line 1: no `out` to compare with"),
        (b'\n\n{"in": {"expression": "true"}, "out": null}', "line 3: no `out` to compare with"),
        (gzip.compress(b"{}" * 1000, mtime=0)[:20], "cannot read"),
    ],
)
def test_a_file_without_cases_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        compare("cel", file)
    assert caught.value.code == 2


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize(
    "case",
    [
        {},
        {"expression": 5},
        {"node": 5},
        {"object": []},
        {"object": {"kind": 1}},
        {"features": "x", "node": {}},
    ],
)
def test_a_malformed_case_counts_as_a_disagreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, case: dict[str, object]
) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(orjson.dumps({"name": "odd", "in": case, "out": {"never": "ours"}}))
    summary, agree = compare(name, file)
    assert (summary, agree) == (
        {"cases": 1, "agree": 0, "disagree": ["odd"], **_AS_1_36},
        False,
    )
    assert len(capsys.readouterr().err.splitlines()) <= 1
    ((_, answer),) = answers(name, file)
    assert isinstance(answer, dict)


def test_an_unknown_subject_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"choose {', '.join(SUBJECTS)}"):
        compare("taste", tmp_path / "any")


def test_a_long_comparison_shows_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class EverySecond(Progress):
        def __init__(self, what: str, total: int) -> None:
            super().__init__(what, total, monotonic=count(step=5).__next__)

    monkeypatch.setattr("dra_recordings.comparison.Progress", EverySecond)
    ((_, right),) = answers("cel", _cel_lines(tmp_path / "in.jsonl", {}))
    summary, _ = compare("cel", _cel_lines(tmp_path / "many.jsonl", *[right] * 12))
    assert summary["cases"] == 12
    assert "compared 2/12 after 10 s\ncompared 4/12 after 20 s\n" in capsys.readouterr().err
