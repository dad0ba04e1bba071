"""Every lesson can be solved, and common mistakes are rejected with advice."""

import re
from collections.abc import Sequence

import pytest
from dra_kube import manifests
from dra_lab.learn.exercise import Exercise, compiled
from dra_lab.learn.lesson import Lesson, Mistake, common_mistakes, lesson, lessons
from dra_shared.cel import CompileError
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dralab.testing import AsyncCluster

from tests.lab.learn.answers import WRONG, Wrong
from tests.support.sampling import sample

_GONE = ("The rule is gone", "The pod neighbour is gone")


def _name(one: Lesson) -> str:
    return one.name


@pytest.mark.system
@pytest.mark.parametrize("one", sample(lessons(), 3), ids=_name)
async def test_a_lesson_is_solved_only_by_its_solution(one: Lesson) -> None:
    async with AsyncCluster(nodes=one.nodes, gpus=one.gpus, drivers=tuple(one.drivers)) as cluster:
        exercise = Exercise(one, cluster.client, lambda pod: cluster.explain(f"pod/{pod}"))
        await exercise.begin()
        for answer in WRONG[one.number]:
            shown = await _submit(exercise, answer)
            assert answer.shown in shown, f"{answer.shown!r} is not in {shown!r}"
        await exercise.submit(one.file_name, one.solution)
        solved = await exercise.verdict()
        assert solved.solved, [goal.text for goal, reached in solved.goals if not reached]
        assert not solved.advice
        assert not solved.explanations
        for mistake in one.mistakes:
            assert not await exercise.holds(mistake.when), mistake.say


@pytest.mark.system
@pytest.mark.parametrize(
    ("one", "gone", "shown"),
    [
        (lesson("9"), "devicetaintrule/gpu-0-fan", "The rule is gone"),
        (lesson("6"), "pod/neighbour", "The pod neighbour is gone"),
    ],
    ids=["rule", "neighbour"],
)
async def test_deleting_the_initial_objects_does_not_solve_a_lesson(
    one: Lesson, gone: str, shown: str
) -> None:
    async with AsyncCluster(nodes=one.nodes, gpus=one.gpus, drivers=tuple(one.drivers)) as cluster:
        exercise = Exercise(one, cluster.client, lambda pod: cluster.explain(f"pod/{pod}"))
        await exercise.begin()
        await exercise.submit(one.file_name, one.file)
        await cluster.delete(gone)
        verdict = await exercise.verdict()
        assert not verdict.solved
        assert any(shown in text for text in verdict.advice), verdict.advice


async def _submit(exercise: Exercise, answer: Wrong) -> str:
    """Submit an answer. Return the text that the learner gets."""
    try:
        await exercise.submit(exercise.lesson.file_name, answer.text(exercise.lesson))
    except (ApiError, UserError) as refused:
        return str(refused)
    verdict = await exercise.verdict()
    assert not verdict.solved, f"this is accepted: {answer.shown}"
    return "\n".join([*verdict.advice, *verdict.explanations])


def test_there_are_ten_lessons_with_several_wrong_answers_each() -> None:
    assert [one.number for one in lessons()] == list(range(1, 11)) == list(WRONG)
    assert all(len(wrong) >= 3 for wrong in WRONG.values())


@pytest.mark.parametrize("one", lessons(), ids=_name)
def test_a_lesson_has_all_its_parts(one: Lesson) -> None:
    assert all((one.title, one.about, one.task, one.solved))
    assert len(one.goals) >= 3
    assert len(one.hints) >= 2
    for text in (one.file, one.solution):
        loaded = manifests.parse("it", text)
        assert not [obj for obj in loaded if "namespace" in obj["metadata"]]
    mistakes = (*one.mistakes, *common_mistakes())
    for expression in [*(goal.expression for goal in one.goals), *(mistake.when for mistake in mistakes)]:
        compiled(expression)
    # Commands in the text are ones of ours.
    assert not re.findall(r"^ {4}(?!dralab )", f"{one.about}\n{one.solved}", re.MULTILINE)


@pytest.mark.parametrize("one", lessons(), ids=_name)
def test_each_recognized_mistake_is_in_a_wrong_answer(one: Lesson) -> None:
    """At least one of the wrong answers above gets the advice of each mistake."""
    shown = [answer.shown for answer in WRONG[one.number]]
    # These are about changes that are not part of the file. They have a test above.
    assert [say for say in _find_unused(one.mistakes, shown) if not say.startswith(_GONE)] == []


def test_each_common_mistake_is_in_a_wrong_answer() -> None:
    shown = [answer.shown for answers in WRONG.values() for answer in answers]
    assert _find_unused(common_mistakes(), shown) == []


def _find_unused(mistakes: Sequence[Mistake], shown: Sequence[str]) -> list[str]:
    """Return the advice that no wrong answer gets."""
    return [mistake.say for mistake in mistakes if not any(part in mistake.say for part in shown)]


def test_a_lesson_is_found_by_number_and_name() -> None:
    assert lesson("3") is lesson("03") is lesson("two-containers-one-gpu") is lessons()[2]
    with pytest.raises(UserError, match="there is no lesson '11': choose 1 to 10"):
        lesson("11")


def test_an_invalid_expression_is_an_error() -> None:
    with pytest.raises(CompileError, match="undeclared reference"):
        compiled("nodes.size() > 0")
    with pytest.raises(CompileError, match="must evaluate to bool"):
        compiled("'text'")
