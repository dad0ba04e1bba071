"""The questions by name. The command line, the HTTP endpoints, the console and ``World`` read them from here."""

from typing import Any

from dra_scheduler.plan.questions import aligned, change, fit, moves, nodes, pack, replay, sweep, taint
from dra_scheduler.plan.questions.question import Question

# In the order in which `dralab plan --help` lists them.
_ALL: tuple[Question[Any, Any], ...] = (
    fit.QUESTION,
    moves.DRAIN,
    moves.REMOVE,
    moves.UPGRADE,
    taint.QUESTION,
    change.QUESTION,
    nodes.QUESTION,
    pack.QUESTION,
    aligned.QUESTION,
    replay.QUESTION,
    sweep.QUESTION,
)
QUESTIONS: dict[str, Question[Any, Any]] = {question.name: question for question in _ALL}
