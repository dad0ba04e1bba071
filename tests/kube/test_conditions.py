"""Conditions of ``wait --for`` (staging/src/k8s.io/kubectl/pkg/cmd/wait/wait_test.go)."""

from typing import Any

import pytest
from dra_cli.commandline import parser
from dra_kube.conditions import condition
from dra_shared.errors import UserError

from tests.support.cases import each_case


def _object(*, generation: int | None = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"generation": generation} if generation else {}, "status": status}


def _conditions(**more: Any) -> list[dict[str, Any]]:
    return [{"type": "Other", "status": "Unknown"}, {"type": "Ready", "status": "True", **more}]


@each_case(
    ("wanted", "obj", "met"),
    [
        ("create", {}, True),
        ("condition=Ready", _object(conditions=_conditions()), True),
        ("condition=ready=TRUE", _object(conditions=_conditions()), True),
        ("condition=Ready=False", _object(conditions=_conditions()), False),
        ("condition=Other=unknown", _object(conditions=_conditions()), True),
        ("condition=Missing", _object(conditions=_conditions()), False),
        ("condition=Ready", {"metadata": {}}, False),
        # The condition was observed for an older generation.
        ("condition=Ready", _object(generation=2, conditions=_conditions(observedGeneration=1)), False),
        ("condition=Ready", _object(generation=2, observedGeneration=1, conditions=_conditions()), False),
        ("condition=Ready", _object(generation=2, observedGeneration=2, conditions=_conditions()), True),
        ("condition=Ready", _object(generation=2, conditions=_conditions()), True),
        ("jsonpath={.status.phase}", _object(phase="Running"), True),
        ("jsonpath={.status.phase}", _object(), False),
        ("jsonpath={.status.phase}=Running", _object(phase="Running"), True),
        ("jsonpath={.status.phase}='Running'", _object(phase="Running"), True),
        ("jsonpath={.status.phase}=Failed", _object(phase="Running"), False),
        ("jsonpath={.status.replicas}=3", _object(replicas=3), True),
        ("jsonpath={.status.ok}=true", _object(ok=True), True),
        (
            'jsonpath={.status.conditions[?(@.type=="Ready")].status}=True',
            _object(conditions=_conditions()),
            True,
        ),
    ],
)
def test_a_wait_condition_is_met_by_matching_objects(wanted: str, obj: dict[str, Any], met: bool) -> None:
    assert condition(wanted)(obj) is met


@each_case(
    ("wanted", "message"),
    [
        ("ready", 'unrecognized condition: "ready"'),
        ("condition=", 'unrecognized condition: "condition="'),
        ("jsonpath={.a}=b=c", "jsonpath wait format must be"),
        ("jsonpath={.a}=", "jsonpath wait has to have a value after equal sign"),
        ("jsonpath={.a}{.b}", "unexpected path string"),
        ("jsonpath='{.a}'", "unexpected path string"),
    ],
)
def test_an_invalid_condition_is_rejected(wanted: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        condition(wanted)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("jsonpath={.status.conditions[*].type}=Ready", "more than one value"),
        ("jsonpath={.status.conditions}=Ready", "a nested object or list"),
    ],
)
def test_values_that_cannot_be_compared_are_an_error(wanted: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        condition(wanted)(_object(conditions=_conditions()))


@each_case(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("2h", 7200), ("500ms", 0.5), ("5", 5), ("0", 0), ("-1s", 604800)],
)
def test_timeouts_are_parsed_as_durations(text: str, seconds: float) -> None:
    chosen = parser("wait").read(["pod/p", "--for=create", f"--timeout={text}"])
    assert chosen.timeout == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5x", "soon"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(UserError, match="is not a duration"):
        parser("wait").read(["pod/p", "--for=create", f"--timeout={text}"])
