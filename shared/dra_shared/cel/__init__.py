"""CEL for DRA's device selectors: compile an expression once, and evaluate it for each device.

>>> program = compile_expression('device.driver == "gpu.example.com"', features=frozenset())
>>> program.matches(CelDevice("gpu.example.com"))
True
"""

from dra_shared.cel.device import CelDevice
from dra_shared.cel.errors import CompileError, ErrorKind, EvaluationError
from dra_shared.cel.program import MAX_COST, MAX_LENGTH, Outcome, Program, compile_expression

__all__ = [
    "MAX_COST",
    "MAX_LENGTH",
    "CelDevice",
    "CompileError",
    "ErrorKind",
    "EvaluationError",
    "Outcome",
    "Program",
    "compile_expression",
]
