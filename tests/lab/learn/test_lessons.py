"""Every lesson can be solved, and common mistakes are rejected with advice."""

import re
from collections.abc import Sequence

import pytest
from dra_kube import manifests
from dra_lab.learn.exercise import Exercise, compile_rule
from dra_lab.learn.lesson import Lesson, Mistake, Refusal, common_mistakes, lesson, lessons, refusals
from dra_lab.learn.world import World
from dra_shared.cel import CompileError
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dralab.testing import AsyncCluster

from tests.lab.learn.answers import Answer, right_answers, wrong_answers
from tests.support.cases import each_case
from tests.support.sampling import sample

_ENDED = "A pod has ended"
_GONE = ("The rule is gone", "The pod neighbour is gone")


def _name(one: Lesson) -> str:
    return one.name


@pytest.mark.system
@pytest.mark.timeout(600)  # This time limit is long enough to check all answers instead of a sample.
@pytest.mark.parametrize("one", sample(lessons(), 2), ids=_name)
async def test_a_lesson_is_solved_only_by_right_answers(one: Lesson) -> None:
    async with AsyncCluster(nodes=one.nodes, gpus=one.gpus, drivers=tuple(one.drivers)) as cluster:
        exercise = Exercise(one, cluster.client, lambda pod: cluster.explain(f"pod/{pod}"))
        await exercise.begin()
        tried = sample(wrong_answers(one), 8)
        problems = [found for answer in tried if (found := await _check_wrong(exercise, answer))]
        problems += [
            found for answer in right_answers(one) if (found := await _check_right(exercise, answer))
        ]
        assert not problems, "\n".join(problems)
        await exercise.submit(one.file_name, one.solution)
        solved = await exercise.verdict()
        assert solved.is_solved, [goal.text for goal, reached in solved.goals if not reached]
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
        assert not verdict.is_solved
        assert any(shown in text for text in verdict.advice), verdict.advice


async def _check_wrong(exercise: Exercise, answer: Answer) -> str:
    """Return what is wrong with the verdict on a wrong answer, empty if it is as expected."""
    shown = await _submit(exercise, answer)
    if shown is None:
        return f"this is accepted: {answer}"
    return "" if answer.shown in shown else f"{answer.shown!r} is not in {shown!r}: {answer.edits}"


async def _check_right(exercise: Exercise, answer: Answer) -> str:
    """Return what is wrong with the verdict on a right answer, empty if it is accepted."""
    shown = await _submit(exercise, answer)
    return "" if shown is None else f"this is not accepted: {answer}: {shown}"


async def _submit(exercise: Exercise, answer: Answer) -> str | None:
    """Return what a learner sees, None if the answer is accepted."""
    try:
        await exercise.submit(exercise.lesson.file_name, answer.text(exercise.lesson))
    except (ApiError, UserError) as refused:
        return str(refused)
    verdict = await exercise.verdict()
    return None if verdict.is_solved else "\n".join([*verdict.advice, *verdict.explanations])


def test_there_are_ten_lessons_with_many_answers_each() -> None:
    assert [one.number for one in lessons()] == list(range(1, 11))
    assert all(len(wrong_answers(one)) >= 20 for one in lessons())
    assert all(len(right_answers(one)) >= 3 for one in lessons())


@each_case("one", lessons(), ids=_name)
def test_each_lesson_has_all_required_texts_and_valid_expressions(one: Lesson) -> None:
    assert all((one.title, one.about, one.task, one.solved))
    assert len(one.goals) >= 3
    assert len(one.hints) >= 2
    for text in (one.file, one.solution):
        loaded = manifests.parse("it", text)
        assert not [obj for obj in loaded if "namespace" in obj["metadata"]]
    mistakes = (*one.mistakes, *common_mistakes())
    for expression in [*(goal.expression for goal in one.goals), *(mistake.when for mistake in mistakes)]:
        compile_rule(expression)
    # All commands in the text exist.
    assert not re.findall(r"^ {4}(?!dralab )", f"{one.about}\n{one.solved}", re.MULTILINE)


@each_case("one", lessons(), ids=_name)
def test_each_recognized_mistake_is_in_a_wrong_answer(one: Lesson) -> None:
    """At least one of the wrong answers gets the advice of each mistake."""
    shown = [answer.shown for answer in wrong_answers(one)]
    # These are about changes that are not part of the file. They have a test above.
    assert [say for say in _find_unused(one.mistakes, shown) if not say.startswith(_GONE)] == []


def test_each_common_mistake_is_in_a_wrong_answer() -> None:
    shown = [answer.shown for one in lessons() for answer in wrong_answers(one)]
    assert [
        say for say in _find_unused([*common_mistakes(), *refusals()], shown) if not say.startswith(_ENDED)
    ] == []


@pytest.mark.parametrize(("phase", "advised"), [("Running", False), ("Succeeded", True)])
def test_advice_explains_that_a_pod_has_ended(phase: str, advised: bool) -> None:
    """A pod that ends runs for a moment, so a cluster may accept it."""
    [ended] = [one for one in common_mistakes() if one.say.startswith(_ENDED)]
    pod = {"metadata": {"name": "first"}, "spec": {"containers": []}, "status": {"phase": phase}}
    kinds = ("pods", "claims", "templates", "classes", "rules", "slices")
    values = World({key: {} for key in kinds}).variables.values()
    assert compile_rule(ended.when).run([*values, pod], 1000).value is advised


def _find_unused(mistakes: Sequence[Mistake | Refusal], shown: Sequence[str]) -> list[str]:
    """Return the advice that no wrong answer gets."""
    return [mistake.say for mistake in mistakes if not any(part in mistake.say for part in shown)]


def test_a_lesson_is_found_by_number_and_name() -> None:
    assert lesson("3") is lesson("03") is lesson("two-containers-one-gpu") is lessons()[2]
    with pytest.raises(UserError, match="there is no lesson '11': choose 1 to 10"):
        lesson("11")


def test_an_invalid_expression_is_an_error() -> None:
    with pytest.raises(CompileError, match="undeclared reference"):
        compile_rule("nodes.size() > 0")
    with pytest.raises(CompileError, match="must evaluate to bool"):
        compile_rule("'text'")
