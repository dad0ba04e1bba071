"""Running the driver suite on dralab's own drivers with each version of Kubernetes."""

from pathlib import Path

import pytest
from dra_conformance.driverprocess import fill_placeholders

from tools.drivers.versions import SUBJECTS, Subject, command, failures, row


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_the_suite_is_given_a_program_that_exists(subject: Subject) -> None:
    words = command(subject, "1.34", Path("r.json"), "", None)
    program = words[words.index("--") + 1]
    assert Path(program).is_file()
    assert "{" not in "".join(fill_placeholders(subject.command[1:], {"pod_uid": "0"}))


def test_options_of_the_suite_come_before_the_driver() -> None:
    words = command(SUBJECTS[0], "1.34", Path("r.json"), "-health", Path("c.yaml"))
    assert words[1 : words.index("--")] == [
        *("conformance", "driver", "--report", "r.json", "--kubernetes-version", "1.34"),
        *("--config", "c.yaml", "-k=-health"),
    ]


def test_a_row_lists_the_failed_checks_of_a_version_and_those_that_could_not_be_judged() -> None:
    outcomes = {
        "a.b": "kept",
        "a.c": "broken",
        "a.d": "warning",
        "a.e": "skipped",
        "a.f": "not shown",
        "a.g": "untried",
    }
    result = {"checks": [{"id": name, "outcome": outcome} for name, outcome in outcomes.items()]}
    assert failures(result) == {"a.c", "a.d", "a.g"}
    assert row("d", "1.34", result) == "| d | 1.34 | 1 | `a.c`, `a.d`, `a.g` | `a.f` |"
