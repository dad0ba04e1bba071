"""Field errors with the messages of apimachinery's ``util/validation/field``."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from dra_shared.durations import Duration
from dra_shared.quoting import go_quote

from dra_scheduler.componentconfig.types import Unknown


def invalid_value(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {_format_value(value)}: {detail}"


def required_value(path: str, detail: str = "") -> str:
    return f"{path}: Required value: {detail}" if detail else f"{path}: Required value"


def duplicate_value(path: str, value: Any) -> str:
    return f"{path}: Duplicate value: {_format_value(value)}"


def forbidden_value(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def unsupported_value(path: str, value: str, supported: Sequence[str]) -> str:
    choices = ", ".join(map(go_quote, supported))
    return f"{path}: Unsupported value: {_format_value(value)}: supported values: {choices}"


def aggregate(errors: Iterable[str]) -> str:
    """Join errors into one text (``utilerrors.Aggregate``)."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _format_value(value: Any) -> str:
    if isinstance(value, Duration):
        value = str(value)
    if isinstance(value, str):
        return go_quote(value)
    return json.dumps(_go_fields(value), separators=(",", ":"), ensure_ascii=False)


def _go_fields(value: Any) -> Any:
    """Convert a value as Go's encoding/json writes upstream's internal types, whose fields have no JSON names."""
    if isinstance(value, Unknown):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {
            name.title().replace("_", ""): 0 if name == "weight" and member is None else _go_fields(member)
            for name, member in members
        }
    if isinstance(value, list):
        return [_go_fields(item) for item in value]
    return value
