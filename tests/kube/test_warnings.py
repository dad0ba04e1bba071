"""Warnings of commands that write objects."""

import copy
from typing import Any

import httpx
import pytest
from dra_kube.manifests import parse
from dra_kube.warnings import WarningWriter, drop_hidden_variables, read_warnings


def _pod(*variables: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "env": list(variables)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def _text(where: str) -> str:
    return f'{where}: hides previous definition of "A", which may be dropped when using apply'


def test_warnings_of_a_response_are_unescaped() -> None:
    headers = [("Warning", r'299 - "spec.a: \"b\" is c\\d"'), ("warning", '299 - "e, f"'), ("warning", "odd")]
    assert list(read_warnings(httpx.Response(200, headers=headers))) == [r'spec.a: "b" is c\d', "e, f"]


def test_each_warning_is_written_once() -> None:
    written: list[str] = []
    warn = WarningWriter(written.append)
    for text in ("a", "b", "a"):
        warn(text)
    assert written == ["Warning: a", "Warning: b"]


def test_a_repeated_environment_variable_keeps_its_last_value() -> None:
    pod = _pod(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "2"},
        {"name": "A", "value": "3"},
        {"name": "A", "value": "4"},
    )
    before = copy.deepcopy(pod)
    changed, warnings = drop_hidden_variables(pod)
    assert changed["spec"]["containers"][0]["env"] == [
        {"name": "B", "value": "2"},
        {"name": "A", "value": "4"},
    ]
    assert warnings == [_text("spec.containers[0].env[2]"), _text("spec.containers[0].env[3]")]
    assert pod == before


def test_a_repeated_variable_is_kept_if_a_later_variable_refers_to_it() -> None:
    pod = _pod({"name": "A", "value": "1"}, {"name": "A", "value": "$(A):2"})
    assert drop_hidden_variables(pod) == (pod, [])


@pytest.mark.parametrize("broken", [{"spec": []}, {"spec": {"containers": [1, {"env": [1, {"name": []}]}]}}])
def test_a_malformed_object_is_sent_unchanged(broken: dict[str, Any]) -> None:
    assert drop_hidden_variables(broken) == (broken, [])


def test_repeated_variables_in_pod_templates_are_dropped_and_the_line_number_is_kept() -> None:
    (manifest,) = parse(
        "a.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {initContainers: "
        "[{name: c, env: [{name: A, value: x}, {name: A, value: y}]}]}}}\n",
    )
    changed, warnings = drop_hidden_variables(manifest)
    assert warnings == [_text("spec.template.spec.initContainers[0].env[1]")]
    assert getattr(changed, "where", None) == "a.yaml:1"
