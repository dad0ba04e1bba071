"""``dralab learn``."""

import argparse
import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

from dra_shared.errors import UserError
from dra_shared.optiontypes import number

from dra_cli.commandline import Parser, suggestion

if TYPE_CHECKING:
    from dra_lab.learn.classroom import Classroom
    from dra_lab.learn.lesson import Lesson
    from dra_lab.learn.notebook import Notebook

# The keys after a lesson is solved. The keys of an open lesson are KEYS in dra_lab/learn/watch.py. : Words
# that can be given instead of a lesson.
ACTIONS = ("check", "hint", "solution", "reset", "next", "stop")
_SOLVED_KEYS = "n or Enter: next lesson, q: quit"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        help=f"a lesson's number or name, or {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}; "
        "the lesson where you stopped by default",
    )
    parser.add_argument("--list", action="store_true", help="list the lessons")
    parser.add_argument(
        "--output", "-o", default="", help="with --list: json or yaml, with the texts of all lessons"
    )
    parser.switch(
        "--watch",
        default=None,
        help="keep applying the file when it is saved (default: on a terminal)",
    )
    parser.add_argument("--console", action="store_true", help="show the lessons in the browser")
    parser.add_argument("--port", type=number(0), default=0, help="the console's port (any free one)")
    parser.switch("--open", default=True, help="with --console: open the browser")


def run(chosen: argparse.Namespace) -> int:
    """Show a lesson, or help with it. Return 1 if a check finds it unsolved.

    Raises:
        UserError: there is no such lesson or word, or the cluster does not start.
    """
    from dra_lab.learn.classroom import Classroom
    from dra_lab.learn.lesson import lesson, lessons
    from dra_lab.learn.notebook import Notebook

    notebook = Notebook.here()
    if chosen.list or chosen.output:
        return _list(notebook, chosen.output)
    classroom = Classroom(notebook)
    words = {"check": _check, "hint": _hint, "solution": _solution, "reset": _reset, "stop": _stop}
    if chosen.what in words:
        return words[chosen.what](notebook, classroom)
    if chosen.what == "next":
        wanted = notebook.next
        if wanted is None:
            print("All lessons are solved.")
            return 0
    else:
        similar = suggestion(chosen.what, [*ACTIONS, *(one.name for one in lessons())])
        if similar != ";" and not similar.endswith(f" {chosen.what}?"):
            raise UserError(f"there is no lesson {chosen.what!r}{similar} see dralab learn --list", 2)
        wanted = lesson(chosen.what) if chosen.what else notebook.lesson_to_resume
    if chosen.console:
        return _console(notebook, classroom, wanted, chosen)
    watch = sys.stdin.isatty() and sys.stdout.isatty() if chosen.watch is None else chosen.watch
    return _learn(notebook, classroom, wanted, watch)


def _learn(notebook: "Notebook", classroom: "Classroom", wanted: "Lesson | None", watch: bool) -> int:
    from dra_lab.learn import show
    from dra_lab.learn.lesson import lessons

    while wanted is not None:
        notebook.choose(wanted)
        print(show.page(wanted, len(lessons())), flush=True)
        _open(notebook, classroom, wanted)
        print(_instructions(notebook, wanted), flush=True)
        if not watch:
            return 0
        wanted = watch_lesson(notebook, classroom, wanted)
    return 0


def _console(
    notebook: "Notebook", classroom: "Classroom", wanted: "Lesson", chosen: argparse.Namespace
) -> int:
    """Serve the lessons until Ctrl-C."""
    try:
        from dra_lab.console.learning import serve
    except ModuleNotFoundError as error:
        raise UserError(f"the console needs {error.name}: pip install 'dralab[console]'") from error
    notebook.choose(wanted)
    _open(notebook, classroom, wanted)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(notebook, classroom, chosen.port, chosen.open))
    return 0


def _open(notebook: "Notebook", classroom: "Classroom", one: "Lesson") -> None:
    """Start the lesson's cluster unless it runs, and apply the learner's file."""
    fresh = not classroom.runs(one)
    if fresh:
        print("\nStarting the lesson's cluster …", flush=True)
        classroom.start(one)
    asyncio.run(_submit(classroom, one, fresh=fresh))


async def _submit(classroom: "Classroom", one: "Lesson", *, fresh: bool) -> None:
    """Apply the learner's file if it has changed. On a fresh cluster, create the lesson's own objects first.

    On a running cluster these stay as they are, because creating them again would undo the learner's changes.
    """
    async with classroom.exercise(one) as exercise:
        if fresh:
            await exercise.begin()
        try:
            await classroom.submit(exercise)
        except UserError as error:
            print(f"\n{error}")


def _instructions(notebook: "Notebook", one: "Lesson") -> str:
    return f"""
Your file: {notebook.file(one)}
In its folder, all commands of dralab use the lesson's cluster. For kubectl:
  export KUBECONFIG={notebook.data}/kubeconfig
`dralab learn check` applies the file and says what is missing; also: hint, solution, reset, next, stop"""


def watch_lesson(notebook: "Notebook", classroom: "Classroom", one: "Lesson") -> "Lesson | None":
    """Watch until the lesson ends. Return the next lesson, or None to stop."""
    from dra_lab.learn.watch import KEYS, Watch, typed_line

    async def follow() -> str:
        async with classroom.exercise(one) as exercise:
            return await Watch(notebook, classroom, typed_line).follow(exercise)

    print(f"Watching: the file is applied whenever you save it. Type a letter and Enter: {KEYS}", flush=True)
    ended = asyncio.run(follow())
    if ended == "q":
        print("The lesson's cluster runs on: `dralab learn` continues here, `dralab learn stop` ends it.")
        return None
    if ended == "r":
        _reset(notebook, classroom)
        return one
    if ended == "n":
        return notebook.next
    _celebrate(notebook, one)
    following = notebook.next
    if following is None:
        return None
    return following if _wants_next() else None


def _wants_next() -> bool:
    """Return True if the learner types n or Enter, and False at q or the end of the input."""
    while True:
        print(f"\n{_SOLVED_KEYS}", flush=True)
        line = sys.stdin.readline()
        key = line.strip().lower()[:1]
        if key == "q" or not line:
            return False
        if key in ("n", ""):
            return True


def _celebrate(notebook: "Notebook", one: "Lesson") -> None:
    from dra_lab.learn import show

    notebook.solve(one)
    print(f"\n{show.format_solved(one)}")
    following = notebook.next
    print(f"\nNext: {following.number} {following.title}" if following else "\nAll lessons are solved.")


def _list(notebook: "Notebook", output: str) -> int:
    from dra_lab.learn import show
    from dra_lab.learn.lesson import lessons

    from dra_cli.outputs import check_data_output, format_data

    check_data_output(output)
    if output:
        shown = [one.data() | {"done": one.number in notebook.solved_lessons} for one in lessons()]
        print(format_data(shown, output))
    else:
        print(show.contents(lessons(), notebook.current.number, notebook.solved_lessons))
    return 0


def _check(notebook: "Notebook", classroom: "Classroom") -> int:
    from dra_lab.learn import show

    one = notebook.current
    notebook.choose(one)
    fresh = not classroom.runs(one)
    if fresh:
        classroom.start(one)

    async def judge() -> bool:
        async with classroom.exercise(one) as exercise:
            if fresh:
                await exercise.begin()
            await classroom.submit(exercise)
            found = await exercise.verdict()
        print(show.verdict(found))
        return found.is_solved

    if not asyncio.run(judge()):
        return 1
    _celebrate(notebook, one)
    return 0


def _hint(notebook: "Notebook", classroom: "Classroom") -> int:
    from dra_lab.learn import show

    one = notebook.current
    print(show.hint(one, notebook.hint(one)))
    return 0


def _solution(notebook: "Notebook", classroom: "Classroom") -> int:
    print(notebook.current.solution, end="")
    return 0


def _reset(notebook: "Notebook", classroom: "Classroom") -> int:
    one = notebook.current
    notebook.choose(one)
    notebook.forget(one)
    classroom.start(one)
    asyncio.run(_submit(classroom, one, fresh=True))
    print(f"Lesson {one.number} begins again: {notebook.file(one)}")
    return 0


def _stop(notebook: "Notebook", classroom: "Classroom") -> int:
    print("stopped" if classroom.stop() else "no lesson's cluster is running")
    return 0
