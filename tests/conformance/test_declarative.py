"""Every table of upstream's declarative validation tests, as if all declared rules were enforced."""

from __future__ import annotations

import functools

import pytest
from dra_apiserver.common.declarative.rules import DeclaredRules
from dra_shared.jsontypes import JsonObject

from tests.support.cases import check_all
from tests.support.reference import load_vectors

KINDS = ("deviceclass", "resourceclaim", "resourcepoolstatusrequest", "resourceslice")
_PACKAGES = "io.k8s.api.resource"


@functools.cache
def _rules(api_version: str, kind: str) -> DeclaredRules:
    return DeclaredRules(f"{_PACKAGES}.{api_version.partition('/')[2]}.{kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_declared_rules_agree_with_upstream(kind: str) -> None:
    cases = load_vectors(f"validation_declarative_{kind}.json.gz")
    check_all(((f"{case['name']}/{case['operation']}", case) for case in cases), _check)


def _check(case: JsonObject) -> None:
    by_hand = [error for error in case["actualErrors"] or () if _is_by_hand(case, error)]
    everything = case["actualErrorsAllDeclarativeEnforced"] or []
    declared = [(error["type"], error["field"], error["body"]) for error in everything[len(by_hand) :]]
    found = _rules(case["apiVersion"], case["kind"]).validate(case["object"], case.get("oldObject"))
    assert [(str(error.type), error.field, error.body()) for error in found] == declared


def _is_by_hand(case: JsonObject, error: JsonObject) -> bool:
    """True if hand-written code reports this error first, and no declared rule has the same effect."""
    if case["kind"] == "ResourcePoolStatusRequest":
        return False
    return not error.get("coveredByDeclarative")
