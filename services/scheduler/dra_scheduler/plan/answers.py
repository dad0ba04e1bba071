"""Answers as plain values for JSON and YAML."""

from typing import Any

import msgspec


def complete(answer: Any) -> Any:
    """Return an answer with all its fields in order, including those with their default.

    Explanations are as ``dralab explain`` writes them.
    """
    if isinstance(answer, tuple | list):
        return [complete(each) for each in answer]
    if isinstance(answer, msgspec.Struct) and type(answer).__module__.startswith("dra_scheduler.plan."):
        fields = msgspec.structs.fields(answer)
        return {field.encode_name: complete(getattr(answer, field.name)) for field in fields}
    return msgspec.to_builtins(answer)
