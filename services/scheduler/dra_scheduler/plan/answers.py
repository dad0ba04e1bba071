"""Answers as plain values for JSON and YAML, and as CSV."""

from typing import Any

import msgspec

from dra_scheduler.plan.questions.question import Question
from dra_scheduler.plan.tables import Table


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


def csv_of(question: Question[Any, Any], answer: Any) -> str:
    """Return the answer's first list as CSV; without lists, its fields with their values."""
    tables = question.tables(answer)
    if tables:
        return tables[0].csv()
    return Table("", ("field", "value"), list(complete(answer).items())).csv()
