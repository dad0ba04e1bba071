"""The lessons over HTTP, below ``/learn``, for the console's Learn view.

The console and the terminal use the same directory of the learner, so files, progress and the cluster are the
same in both.
"""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from dra_lab.learn.classroom import Classroom
from dra_lab.learn.exercise import Exercise, Verdict
from dra_lab.learn.lesson import Lesson, lesson, lessons
from dra_lab.learn.notebook import Notebook

_FAILED = (ApiError, UserError, httpx.HTTPError, OSError, TimeoutError)


class Chosen(BaseModel):
    """The lesson to open."""

    number: int


class Answer(BaseModel):
    """The learner's text."""

    text: str


class Desk:
    """A learner's session. ``moved`` is called whenever another cluster has started."""

    def __init__(
        self, notebook: Notebook, classroom: Classroom, moved: Callable[[], Awaitable[None]]
    ) -> None:
        self._notebook = notebook
        self._classroom = classroom
        self._moved = moved
        # Serialize: start one cluster at a time, and apply one file at a time.
        self._lock = asyncio.Lock()

    def state(self) -> JsonObject:
        """Return the lessons, and the current one with the learner's file."""
        one = self._notebook.current
        file = self._notebook.file(one)
        done = self._notebook.solved_lessons
        return {
            "lessons": [
                {"number": each.number, "title": each.title, "done": each.number in done}
                for each in lessons()
            ],
            "lesson": {
                **{name: getattr(one, name) for name in ("number", "title", "about", "task", "solved")},
                "goals": [{"text": goal.text, "reached": False} for goal in one.goals],
                "file": str(file),
                "text": file.read_text(errors="replace") if file.exists() else one.file,
            },
        }

    async def open(self, number: int) -> JsonObject:
        """Open a lesson, and start its cluster unless it runs.

        Raises:
            UserError: there is no lesson with that number, or its cluster does not start.
        """
        one = lesson(str(number))
        async with self._lock:
            self._notebook.choose(one)
            await self._begin(one, afresh=not self._classroom.runs(one))
        return self.state()

    async def reset(self) -> JsonObject:
        """Reset the lesson's file, hints and cluster to their initial state."""
        one = self._notebook.current
        async with self._lock:
            self._notebook.choose(one)
            self._notebook.forget(one)
            await self._begin(one, afresh=True)
        return self.state()

    async def check(self, text: str) -> JsonObject:
        """Save and apply the learner's file if it changed, and say what is missing."""
        one = self._notebook.current
        async with self._lock, self._classroom.exercise(one) as exercise:
            await asyncio.to_thread(self._notebook.file(one).write_text, text)
            try:
                await self._classroom.submit(exercise)
            except (ApiError, UserError) as refused:
                return {**self._report(await exercise.glance()), "problem": str(refused)}
            return self._report(await exercise.verdict())

    async def goals(self) -> JsonObject:
        """Report which goals are reached now."""
        async with self._classroom.exercise(self._notebook.current) as exercise:
            return self._report(await exercise.glance())

    def hint(self) -> JsonObject:
        """Return the next hint."""
        one = self._notebook.current
        return {"hints": [text.strip() for text in one.hints[: self._notebook.hint(one) + 1]]}

    def solution(self) -> JsonObject:
        """Return a solution of the lesson."""
        return {"text": self._notebook.current.solution}

    async def _begin(self, one: Lesson, *, afresh: bool) -> None:
        if afresh:
            await asyncio.to_thread(self._classroom.start, one)
            await self._moved()
        async with self._classroom.exercise(one) as exercise:
            if afresh:
                await exercise.begin()
            await self._submit_as_it_is(exercise)

    async def _submit_as_it_is(self, exercise: Exercise) -> None:
        """Apply the learner's file unchanged. Ignore its errors, because a check reports them."""
        try:
            await self._classroom.submit(exercise)
        except (ApiError, UserError):
            return

    def _report(self, verdict: Verdict) -> JsonObject:
        if verdict.is_solved:
            self._notebook.solve(self._notebook.current)
        return {
            "goals": [{"text": goal.text, "reached": reached} for goal, reached in verdict.goals],
            "solved": verdict.is_solved,
            "advice": [text.strip() for text in verdict.advice],
            "explanations": list(verdict.explanations),
            "problem": "",
        }


def router(desk: Desk) -> APIRouter:
    """Return the router of the lessons' endpoints."""
    made = APIRouter(prefix="/learn", include_in_schema=False)

    async def report_failures(work: Awaitable[JsonObject]) -> JsonObject:
        try:
            return await work
        except _FAILED as error:
            raise HTTPException(503, str(error) or type(error).__name__) from error

    @made.get("/state")
    async def state() -> JsonObject:
        return desk.state()

    @made.post("/lesson")
    async def choose(chosen: Chosen) -> JsonObject:
        return await report_failures(desk.open(chosen.number))

    @made.post("/reset")
    async def reset() -> JsonObject:
        return await report_failures(desk.reset())

    @made.post("/check")
    async def check(answer: Answer) -> JsonObject:
        return await report_failures(desk.check(answer.text))

    @made.get("/goals")
    async def goals() -> JsonObject:
        return await report_failures(desk.goals())

    @made.post("/hint")
    async def hint() -> JsonObject:
        return desk.hint()

    @made.get("/solution")
    async def solution() -> JsonObject:
        return desk.solution()

    return made
