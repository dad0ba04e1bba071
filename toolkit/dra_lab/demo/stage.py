"""The demo's surroundings: a temporary folder, pauses, and a clean end after signals."""

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dra_shared.errors import UserError

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """Yield a new folder, which is deleted at the end. It is kept if a service or a phase failed, for its logs."""
    folder = Path(tempfile.mkdtemp(prefix="dralab-demo-"))
    try:
        yield folder
    except UserError:
        if not any(folder.glob("logs/*")):
            shutil.rmtree(folder)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Cancel the current task at SIGTERM and SIGHUP, as Ctrl-C does.

    Raises:
        SystemExit: a signal cancelled the task; the exit code is that of shells.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


class Pause:
    """Waits for Enter if ``wanted`` is set and standard input is a terminal."""

    def __init__(self, wanted: bool) -> None:
        self._stops = wanted and sys.stdin.isatty()

    async def __call__(self, hint: str) -> None:
        """Wait for Enter. ``hint`` says what the user can try meanwhile."""
        if not self._stops:
            return
        print(f"   [Enter] continues; {hint}", flush=True)
        loop, pressed = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin, pressed.set)
        try:
            await pressed.wait()
        finally:
            loop.remove_reader(sys.stdin)
        # Do not wait for a key after the end of the input.
        self._stops = bool(sys.stdin.readline())
