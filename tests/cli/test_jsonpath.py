"""JSONPath as kubectl has it."""

from typing import Any

import pytest
from dra_cli.jsonpath import PathError, parse

_POD = {
    "metadata": {"labels": {"app.kubernetes.io/name": "x"}, "a-b": 1},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Other", "status": "False", "n": 2.5, "on": True},
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("{.status.phase}", ["Running"]),
        ("{status.phase}", ["Running"]),
        (".status.phase", ["Running"]),
        ("status.phase", ["Running"]),
        ("{$.status.phase}", ["Running"]),
        ("{.status['phase']}", ["Running"]),
        ("{.metadata.labels.app\\.kubernetes\\.io/name}", ["x"]),
        ("{.metadata.labels['app\\.kubernetes\\.io/name']}", ["x"]),
        ("{.metadata.a-b}", [1]),
        ("{.status.conditions[0].type}", ["Ready"]),
        ("{.status.conditions[-1].type}", ["Other"]),
        ("{.status.conditions[7].type}", []),
        ("{.status.conditions[*].status}", ["True", "False"]),
        ("{.metadata.labels.*}", ["x"]),
        ('{.status.conditions[?(@.type=="Ready")].status}', ["True"]),
        ("{.status.conditions[?(@.type != 'Ready')].status}", ["False"]),
        ("{.status.conditions[?(@.n==2.5)].type}", ["Other"]),
        ("{.status.conditions[?(@.n == 1)].type}", ["Ready"]),
        ("{.status.conditions[?(@.on==true)].type}", ["Other"]),
        ("{.status.phase.nothing[0]}", []),
        ("{.spec}", []),
    ],
)
def test_finds(path: str, found: list[Any]) -> None:
    assert parse(path)(_POD) == found


@pytest.mark.parametrize("path", ["", "{}", "{.a}{.b}", "{.a[}", "{.a[?(@.b~1)]}", "{.a[?(@.b==c)]}", "a..b"])
def test_refuses(path: str) -> None:
    with pytest.raises(PathError):
        parse(path)
