"""``dralab learn``, on a cluster in this process."""

import asyncio
import contextlib
import io
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from dra_cli.commands import learn as command
from dra_cli.main import main
from dra_lab.learn import classroom, show, watch
from dra_lab.learn.classroom import Classroom
from dra_lab.learn.exercise import Exercise
from dra_lab.learn.lesson import Lesson, lesson, lessons
from dra_lab.learn.notebook import Notebook
from dra_lab.learn.watch import Watch
from dra_shared.client.rest import Client
from dralab.testing import Cluster

pytestmark = [
    pytest.mark.system,
    pytest.mark.dra_cluster(gpus="2xA100-SXM4-40GB:whole", scope="module"),
]

Learn = Callable[..., str]


@pytest.fixture
def notebook(dra_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """Return an empty notebook that uses the clusters of the test."""
    monkeypatch.setenv("DRALAB_LEARN", str(tmp_path / "learn"))
    running: set[int] = set()

    class Here(Classroom):
        def runs(self, one: Lesson) -> bool:
            return one.number in running

        def start(self, one: Lesson) -> None:
            self.stop()
            running.add(one.number)
            self._notebook.cluster = one.number

        def stop(self) -> bool:
            dra_cluster.rollback()
            was = bool(running)
            running.clear()
            return was

        @contextlib.asynccontextmanager
        async def exercise(self, one: Lesson) -> AsyncIterator[Exercise]:
            async def explain(pod: str) -> str:
                return await dra_cluster.run_from(dra_cluster.asynchronous.explain(f"pod/{pod}"))

            async with Client(dra_cluster.url) as client:
                yield Exercise(one, client, explain)

    monkeypatch.setattr(classroom, "Classroom", Here)
    return Notebook.here()


@pytest.fixture
def learn(notebook: Notebook, capfd: pytest.CaptureFixture[str]) -> Learn:
    def run(*words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["learn", *words])
        shown = capfd.readouterr()
        assert ended.value.code == code, shown.err
        return shown.out + shown.err

    return run


def test_a_lesson_is_shown_checked_and_solved(learn: Learn, notebook: Notebook) -> None:
    one = lesson("1")
    shown = learn()
    assert "# 1/10 Your first claim" in shown
    assert "## Task" in shown
    assert str(notebook.file(one)) in shown
    checked = learn("check", code=1)
    assert "[ ] its container main was given that GPU" in checked
    assert "lists no claims in spec.resourceClaims" in checked
    assert learn("hint").startswith("Hint 1 of 2: Add `resourceClaims`")
    assert learn("hint").startswith("Hint 2 of 2: ")
    assert learn("solution") == one.solution
    notebook.file(one).write_text(one.solution)
    solved = learn("check")
    assert "[x] its container main was given that GPU" in solved
    assert "## Solved" in solved
    assert "Next: 2 A claim for all, or one for each" in solved
    assert learn("--list").splitlines()[0] == "> [x]  1 first-claim                Your first claim"
    assert "# 2/10" in learn("next")
    assert learn("stop") == "stopped\n"
    assert learn("stop") == "no lesson's cluster is running\n"


def test_a_reset_restores_the_file_and_the_cluster(
    learn: Learn, notebook: Notebook, dra_cluster: Cluster
) -> None:
    one = lesson("2")
    learn("2")
    dra_cluster.delete("pod/beta")
    notebook.file(one).write_text("apiVersion: v1\n")
    assert "holds a document without apiVersion and kind" in learn("check", code=1)
    assert "begins again" in learn("reset")
    assert notebook.file(one).read_text() == one.file
    assert {pod["metadata"]["name"] for pod in dra_cluster.list("pods")} == {"alpha", "beta"}


def test_errors_of_the_api_server_are_shown_at_each_check(learn: Learn, notebook: Notebook) -> None:
    one = lesson("1")
    learn("1")
    notebook.file(one).write_text(one.solution.replace("deviceClassName", "className"))
    for _ in range(2):
        assert "01-first-claim.yaml:10" in learn("check", code=1)
    notebook.file(one).write_text(one.solution.replace("name: my-gpu", "name: my-gpu\n  namespace: team"))
    assert "lessons only check the namespace default" in learn("check", code=1)


def test_lessons_are_listed_as_json(learn: Learn) -> None:
    shown = json.loads(learn("--list", "-o", "json"))
    assert [one["number"] for one in shown] == list(range(1, 11))
    assert shown[0]["task"] == lesson("1").task
    assert shown[0]["cluster"] == {
        "nodes": 1,
        "gpus": "2xA100-SXM4-40GB:whole",
        "drivers": ["gpu.nvidia.com"],
    }
    assert "unknown output 'xml'" in learn("-o", "xml", code=2)
    assert "there is no lesson 'zero'" in learn("zero", code=2)


def test_the_end_of_all_lessons_is_reported(learn: Learn, notebook: Notebook) -> None:
    for one in lessons():
        notebook.solve(one)
    assert learn("next") == "All lessons are solved.\n"


def test_learn_watch_applies_the_saved_file_and_handles_keys(
    notebook: Notebook, capfd: pytest.CaptureFixture[str]
) -> None:
    one = lesson("1")
    notebook.choose(one)
    shown = ""

    async def type_key() -> str:
        """Type the next key once the previous one was handled, then save the solution."""
        nonlocal shown
        shown += capfd.readouterr().out
        if "resourceClaims`" not in shown:
            return "h\n"
        if "kind: ResourceClaim\n" not in shown:
            return "s\n"
        if "q: quit" not in shown:
            return "?\n"
        notebook.file(one).write_text(one.solution)
        await asyncio.Event().wait()
        return ""

    assert asyncio.run(_follow(notebook, one, type_key)) == "solved"
    shown += capfd.readouterr().out
    assert shown.index("[ ] its container") < shown.index("[x] its container")


@pytest.mark.parametrize("key", ["n", "q", "r"])
def test_learn_watch_ends_when_the_quit_key_is_pressed(
    notebook: Notebook, key: str, capfd: pytest.CaptureFixture[str]
) -> None:
    one = lesson("1")
    notebook.choose(one)
    notebook.file(one).write_text("kind: Pod\n")

    async def type_key() -> str:
        return f"{key}\n"

    assert asyncio.run(_follow(notebook, one, type_key)) == key
    assert "without apiVersion and kind" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("typed", "number"), [("n\n", 2), ("\n", 2), ("x\nn\n", 2), ("q\n", None), ("", None)]
)
def test_the_next_lesson_starts_with_n_or_enter_after_a_solved_one(
    notebook: Notebook,
    typed: str,
    number: int | None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    one = lesson("1")
    notebook.choose(one)
    notebook.file(one).write_text(one.solution)

    async def silent() -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(watch, "typed_line", silent)
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    following = command.watch_lesson(notebook, classroom.Classroom(notebook), one)
    assert (following and following.number) == number
    assert "n or Enter: next lesson, q: quit" in capfd.readouterr().out


async def _follow(notebook: Notebook, one: Lesson, typed: Callable[[], Awaitable[str]]) -> str:
    room = classroom.Classroom(notebook)
    async with room.exercise(one) as exercise:
        return await Watch(notebook, room, typed).follow(exercise)


def test_lesson_pages_fit_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    page = show.page(lesson("4"), 10)
    assert all(len(line) <= 60 for line in page.splitlines() if not line.startswith((" ", "#", "* ", "`")))
    assert "    dralab get resourceslices" in show.page(lesson("1"), 10)


def test_lesson_pages_are_colored_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "uses_colours", lambda: True)
    page = show.page(lesson("1"), 10)
    assert "\033[1mResourceSlices\033[0m" in page
    assert "\033[36m    dralab devices\033[0m" in page
    assert "`" not in page
