"""Follow a lesson in a terminal: apply each saved file, show goals as they are reached, and react to keys."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import httpx
from dra_shared.client.errors import ApiError
from dra_shared.errors import UserError

from dra_lab.learn import show
from dra_lab.learn.classroom import Classroom
from dra_lab.learn.exercise import Exercise, Verdict
from dra_lab.learn.notebook import Notebook

#: Help for the keys that a learner can type.
KEYS = "h: hint, c: check, s: solution, r: reset, n: next lesson, q: quit"
_EVERY = 0.5


class Watch:
    """Follows a lesson until it is solved or the learner leaves.

    ``line`` returns the next line that the learner types.
    """

    def __init__(self, notebook: Notebook, classroom: Classroom, line: Callable[[], Awaitable[str]]) -> None:
        self._notebook = notebook
        self._classroom = classroom
        self._line = line
        self._tried: str | None = None
        self._shown: list[bool] = []
        self._problem = ""

    async def follow(self, exercise: Exercise) -> str:
        """Follow the lesson until it ends. Return ``solved``, or the key that ended it: ``n``, ``q`` or ``r``."""
        typed = asyncio.ensure_future(self._line())
        try:
            while True:
                verdict = await self._look(exercise)
                if verdict is not None and verdict.is_solved:
                    return "solved"
                await asyncio.wait((typed,), timeout=_EVERY)
                if typed.done():
                    key = typed.result().strip().lower()[:1]
                    if key in ("n", "q", "r"):
                        return key
                    await self._help(exercise, key)
                    typed = asyncio.ensure_future(self._line())
        finally:
            typed.cancel()

    async def _look(self, exercise: Exercise) -> Verdict | None:
        """Apply the file if it was saved, and print the result. Otherwise print the goals if they changed."""
        try:
            text = self._notebook.file(exercise.lesson).read_text(errors="replace")
            if text != self._tried:
                self._tried = text
                await self._classroom.submit(exercise)
                return self._print(await exercise.verdict())
            verdict = await exercise.glance()
        except (UserError, ApiError, httpx.HTTPError, OSError) as error:
            self._report(str(error))
            return None
        if [held for _, held in verdict.goals] != self._shown:
            self._print(verdict)
        return verdict

    def _print(self, verdict: Verdict) -> Verdict:
        self._shown = [held for _, held in verdict.goals]
        self._problem = ""
        print(f"\n{show.verdict(verdict)}\n", flush=True)
        return verdict

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            print(f"\n{problem}\n", flush=True)

    async def _help(self, exercise: Exercise, key: str) -> None:
        one = exercise.lesson
        if key == "h":
            print(show.hint(one, self._notebook.hint(one)))
        elif key == "s":
            print(one.solution)
        elif key == "c":
            self._print(await exercise.verdict())
        else:
            print(KEYS)


async def typed_line() -> str:
    """Return a line from standard input. At the end of the input, wait forever."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    line = sys.stdin.readline()
    return line if line else "q"
