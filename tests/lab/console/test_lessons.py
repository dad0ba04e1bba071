"""The lessons over HTTP, on a cluster in this process."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dra_lab.console.lessons import Desk, router
from dra_lab.learn.classroom import Classroom
from dra_lab.learn.exercise import Exercise
from dra_lab.learn.lesson import Lesson, lessons
from dra_lab.learn.notebook import Notebook
from dra_shared.errors import UserError
from dralab.testing import AsyncCluster
from fastapi import FastAPI

_FIRST = lessons()[0]


class _Classroom(Classroom):
    """A classroom with one cluster for all lessons."""

    def __init__(self, notebook: Notebook, cluster: AsyncCluster) -> None:
        super().__init__(notebook)
        self.cluster = cluster
        self.started: list[int] = []

    def runs(self, one: Lesson) -> bool:
        return self.started[-1:] == [one.number]

    def start(self, one: Lesson) -> None:
        if one.number == 10:
            raise UserError("no cluster today")
        self.started.append(one.number)

    @contextlib.asynccontextmanager
    async def exercise(self, one: Lesson) -> AsyncIterator[Exercise]:
        yield Exercise(one, self.cluster.client, lambda pod: self.cluster.explain(f"pod/{pod}"))


async def _ask(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answer = await client.request(method, f"/learn/{path}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _goals_reached(verdict: dict[str, Any]) -> list[bool]:
    return [goal["reached"] for goal in verdict["goals"]]


async def test_a_learner_opens_checks_and_solves_a_lesson(tmp_path: Path) -> None:
    moves: list[int] = []

    async def record_move() -> None:
        moves.append(1)

    notebook = Notebook(tmp_path)
    app = FastAPI()
    async with AsyncCluster(gpus=_FIRST.gpus) as cluster:
        classroom = _Classroom(notebook, cluster)
        app.include_router(router(Desk(notebook, classroom, record_move)))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://learner") as client:
            await _lesson_one(client, notebook)
            assert (classroom.started, len(moves)) == ([1], 1)
            again = await _ask(client, "POST", "reset")
            assert again["lesson"]["text"] == _FIRST.file
            # The pod may run already.
            assert _goals_reached(await _ask(client, "GET", "goals"))[::2] == [False, False]
            refused = await client.post("/learn/lesson", json={"number": 10})
            assert (refused.status_code, refused.json()["detail"]) == (503, "no cluster today")
            missing = await client.post("/learn/lesson", json={"number": 11})
            assert "there is no lesson '11'" in missing.json()["detail"]


async def _lesson_one(client: httpx.AsyncClient, notebook: Notebook) -> None:
    opened = await _ask(client, "POST", "lesson", {"number": 1})
    assert opened["lesson"]["text"] == _FIRST.file == notebook.file(_FIRST).read_text()
    assert [one["done"] for one in opened["lessons"]] == [False] * 10
    unchanged = await _ask(client, "POST", "check", {"text": _FIRST.file})
    assert (_goals_reached(unchanged), unchanged["solved"]) == ([False, True, False], False)
    assert "lists no claims in spec.resourceClaims" in unchanged["advice"][0]
    broken = await _ask(client, "POST", "check", {"text": "kind: Pod"})
    assert "01-first-claim.yaml" in broken["problem"]
    hints = [(await _ask(client, "POST", "hint"))["hints"] for _ in range(3)]
    assert [len(each) for each in hints] == [1, 2, 2]
    solution = (await _ask(client, "GET", "solution"))["text"]
    solved = await _ask(client, "POST", "check", {"text": solution})
    assert (_goals_reached(solved), solved["solved"], solved["problem"]) == ([True] * 3, True, "")
    assert notebook.file(_FIRST).read_text() == solution
    assert (await _ask(client, "GET", "state"))["lessons"][0]["done"]


@pytest.mark.parametrize("path", ["check", "lesson"])
async def test_a_body_with_unknown_fields_is_rejected(tmp_path: Path, path: str) -> None:
    app = FastAPI()

    async def fail() -> None:
        raise AssertionError("nothing was started")

    notebook = Notebook(tmp_path)
    app.include_router(router(Desk(notebook, Classroom(notebook), fail)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://learner") as client:
        assert (await client.post(f"/learn/{path}", json={"x": 1})).status_code == 422
