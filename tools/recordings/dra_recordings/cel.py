"""Evaluate recorded cases, and compare the result with the recorded one."""

from typing import Any, Final

import msgspec
from dra_shared.api.resource import DeviceAttribute, DeviceCapacity
from dra_shared.cel.device import CelDevice
from dra_shared.cel.errors import CompileError, EvaluationError
from dra_shared.cel.program import compile_expression
from dra_shared.version import RECORDED, Version

_SYNTAX: Final = "Syntax error"
_EXACT: Final = ("match", "matchError", "estimatedCost", "outputType")


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Evaluate ``{expression, features, envType?, driver, device}`` and return the result in upstream's form."""
    out: dict[str, Any] = {"name": case["name"]} if "name" in case else {}
    stored = case.get("envType", "StoredExpressions") == "StoredExpressions"
    try:
        program = compile_expression(
            case["expression"],
            features=frozenset(case.get("features") or ()),
            kubernetes=Version.parse(case.get("kubernetesVersion", str(RECORDED))),
            stored=stored,
        )
    except CompileError as error:
        return {**out, "compileError": error.text, "compileErrorType": str(error.kind)}
    out |= {"estimatedCost": program.estimated_cost, "outputType": program.output_type}
    device = _device(case)
    try:
        out["match"] = program.matches(device)
    except EvaluationError as error:
        out["matchError"] = str(error)
    outcome = program.evaluate(device)
    if not program.cost_varies and (outcome.cost or outcome.error is None):
        out["evaluationCost"] = outcome.cost
    return out


def _device(case: dict[str, Any]) -> CelDevice:
    raw = case.get("device") or {}
    return CelDevice(
        case.get("driver", ""),
        msgspec.convert(raw.get("attributes") or {}, dict[str, DeviceAttribute]),
        msgspec.convert(raw.get("capacity") or {}, dict[str, DeviceCapacity]),
        raw.get("allowMultipleAllocations"),
    )


def agrees(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """True if our result agrees with upstream's.

    Of a type error, only the first line is compared. Of a syntax error, only its presence is compared. The
    evaluation cost is compared unless it depends on the order in which Go iterates over a map. Our result
    lacks the cost in that case.
    """
    if "compileError" in theirs or "compileError" in ours:
        expected, got = theirs.get("compileError"), ours.get("compileError")
        if expected is None or got is None:
            return False
        if _SYNTAX in expected:
            return True
        return bool(expected.split("\n")[0] == got.split("\n")[0])
    if any(ours.get(key) != theirs.get(key) for key in _EXACT):
        return False
    both = "evaluationCost" in theirs and "evaluationCost" in ours
    return not both or bool(ours["evaluationCost"] == theirs["evaluationCost"])
