"""Results as rows of a table, JUnit XML, JSON and Markdown."""

import json
from xml.etree import ElementTree

from dra_conformance.show import (
    FORMATS,
    explanation,
    is_passed,
    line,
    list_hidden,
    listing,
    strictly,
    summary,
)
from dra_shared.version import V1_34, V1_37, release
from dralab.conformance import CHECKS, Outcome, Result, select

from tests.support.cases import each_case

_ABOUT = {"command": "my-driver --flag", "kubernetesVersion": "1.36", "dralab": "0.0"}
_BY_ID = {check.id: check for check in CHECKS}


def _results() -> list[Result]:
    return [
        Result(_BY_ID["prepare.succeeds"], Outcome.KEPT, "", 0.5),
        Result(_BY_ID["prepare.idempotent"], Outcome.BROKEN, "first a | b,\x00 then <c>"),
        Result(_BY_ID["slices.owner"], Outcome.WARNING, "slice-1 is not owned by the node"),
        Result(_BY_ID["shares.two-claims"], Outcome.SKIPPED, "needs 1 device"),
        Result(_BY_ID["cdi.gone"], Outcome.UNTRIED, "the claim is not prepared"),
        Result(_BY_ID["cdi.by-request"], Outcome.NOT_SHOWN, "one CDI device for all"),
    ]


def test_a_row_of_the_result_table_has_outcome_check_and_reason() -> None:
    row = line(_results()[1])
    assert row.splitlines()[0].split()[:2] == ["BROKEN", "prepare.idempotent"]
    assert row.splitlines()[1].strip().startswith("first a | b")


def test_the_summary_of_a_run_has_counts_by_outcome_and_the_duration() -> None:
    assert (
        summary(_results(), 61.24) == "1 kept, 1 broken, 1 warning, 1 skipped, 1 not shown, 1 untried; 61.2 s"
    )


@each_case(
    ("outcomes", "strict", "good"),
    [
        ((Outcome.KEPT, Outcome.SKIPPED), True, True),
        ((Outcome.KEPT, Outcome.NOT_SHOWN), False, True),
        ((Outcome.KEPT, Outcome.NOT_SHOWN), True, False),
        ((Outcome.KEPT, Outcome.WARNING), False, True),
        ((Outcome.KEPT, Outcome.WARNING), True, False),
        ((Outcome.KEPT, Outcome.BROKEN), False, False),
        ((Outcome.KEPT, Outcome.UNTRIED), False, False),
    ],
)
def test_a_run_passes_if_no_check_is_broken(outcomes: tuple[Outcome, ...], strict: bool, good: bool) -> None:
    results = [Result(_BY_ID["prepare.succeeds"], outcome) for outcome in outcomes]
    assert is_passed([strictly(one) for one in results] if strict else results) is good


def test_strict_runs_fail_recommended_checks_in_every_format() -> None:
    """Once, only the exit code was set: the JUnit file had no failure, and the page had a green badge."""
    found = [strictly(one) for one in _results() if one.outcome is Outcome.WARNING]
    assert 'failures="1"' in FORMATS["junit"](found, 1, _ABOUT)
    assert json.loads(FORMATS["json"](found, 1, _ABOUT))["passed"] is False
    assert "-red)" in FORMATS["markdown"](found, 1, _ABOUT)


def test_checks_that_could_not_be_judged_are_listed_with_the_reason() -> None:
    found = list_hidden(_results())
    assert found.splitlines()[1:] == ["  cdi.by-request: one CDI device for all"]
    assert list_hidden([one for one in _results() if one.outcome is not Outcome.NOT_SHOWN]) == ""
    (strict,) = [strictly(one) for one in _results() if one.outcome is Outcome.NOT_SHOWN]
    assert (strict.outcome, strict.message) == (Outcome.BROKEN, "not shown: one CDI device for all")


def test_the_junit_report_has_a_test_case_for_each_check() -> None:
    suite = ElementTree.fromstring(FORMATS["junit"](_results(), 61.2, _ABOUT).partition("\n")[2])
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["6", "1", "1", "2"]
    children = {case.get("name"): [child.tag for child in case] for case in suite}
    assert children == {
        "prepare.succeeds": [],
        "prepare.idempotent": ["failure"],
        "slices.owner": ["system-out"],
        "shares.two-claims": ["skipped"],
        "cdi.gone": ["error"],
        "cdi.by-request": ["skipped"],
    }
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "first a | b, then <c>"
    assert "What a breach costs users" in (failure.text or "")


def test_the_json_report_has_all_results() -> None:
    document = json.loads(FORMATS["json"](_results(), 61.2, _ABOUT))
    assert document["passed"] is False
    assert document["counts"] == {
        "kept": 1,
        "broken": 1,
        "warning": 1,
        "skipped": 1,
        "untried": 1,
        "not shown": 1,
    }
    assert document["checks"][1]["id"] == "prepare.idempotent"
    assert document["command"] == "my-driver --flag"


def test_the_markdown_report_starts_with_a_badge_and_the_broken_checks() -> None:
    page = FORMATS["markdown"](_results(), 61.2, _ABOUT)
    assert "DRA_conformance-1%2F5-red" in page
    assert (
        page.index("## Broken")
        < page.index("## Recommended")
        < page.index("## Not shown")
        < page.index("## All checks")
    )
    assert "broken: first a \\| b," in page


def test_the_list_of_checks_has_a_line_for_each_check() -> None:
    assert len(listing(CHECKS).splitlines()) == len(CHECKS) >= 60


def test_the_list_of_checks_marks_those_that_a_kubernetes_version_lacks_or_gates() -> None:
    checks = select("health.newest,shares.two,prepare.idem")
    rows = {row.split()[0]: row.partition(" (")[2].rstrip(")") for row in listing(checks, V1_34).splitlines()}
    assert rows == {
        "prepare.idempotent": "",
        "unprepare.idempotent": "",
        "shares.two-claims": "DRAConsumableCapacity, alpha, off by default",
        "health.newest-service": "recommended; not tried: Kubernetes has it since 1.37",
    }
    rows = {row.split()[0]: row.partition(" (")[2].rstrip(")") for row in listing(checks, V1_37).splitlines()}
    assert rows["shares.two-claims"] == "DRAConsumableCapacity, beta"
    assert rows["health.newest-service"] == "recommended; ResourceHealthStatus, beta"
    assert "health.newest-service" in listing(checks)
    assert "(recommended; since 1.37)" in listing(checks)


def test_the_feature_gates_that_checks_name_exist_in_kubernetes() -> None:
    for check in CHECKS:
        assert not check.gate or check.gate in release(V1_37).gates, check.id
        assert check.since <= check.until, check.id
        if check.gate:
            assert check.gate in release(check.since).gates, check.id


def test_every_check_states_the_promise_its_source_and_the_cost_of_breaking_it() -> None:
    for check in CHECKS:
        assert check.promise.endswith("."), check.id
        assert check.cost.endswith("."), check.id
        assert "/" in check.source or "KEP-" in check.source or "man " in check.source, check.id
        assert explanation(check).startswith(f"{check.id}: {check.title}")
        assert _BY_ID.keys() >= set(check.rests_on), check.id


def test_checks_are_selected_by_parts_of_their_names() -> None:
    assert {check.area for check in select("cdi., admin")} == {"cdi", "admin"}
    assert [check.id for check in select("prepare.idem")] == ["prepare.idempotent", "unprepare.idempotent"]
    assert "health" not in {check.area for check in select("-health")}
    assert select("nothing-like-it") == []
