"""A service for tests of the supervisor. It is ready at once, or dies or is never ready by flags."""

import argparse
import asyncio
import os
import sys

# Modules that httpx and structlog import if they can. They would take half of the time of the process's start.
for _name in ("httpx._main", "rich"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # None is what import looks for

from dra_shared.client.leader import LeadershipLost  # noqa: E402  # after the modules that it must not import
from dra_shared.service import CannotRun, HealthServer, run  # noqa: E402  # the same


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--never-listen", action="store_true")
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--refuse", action="store_true")
    parser.add_argument("--leader-elect")
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--lose", action="store_true")
    parser.add_argument("--cannot-run", action="store_true")
    options = parser.parse_args()
    if options.refuse:
        parser.error("no such GPU")
    if options.crash:
        sys.stdout.write("cannot open the thing\n")
        sys.stdout.flush()
        os._exit(3)

    async def serve() -> None:
        if options.fail:
            raise OSError("the disk is full")
        if options.lose:
            async with asyncio.TaskGroup():
                raise LeadershipLost("could not renew lease a/b")
        if options.cannot_run:
            raise CannotRun("checkpoint is corrupted")
        if options.never_listen:
            await asyncio.Event().wait()
        async with HealthServer("127.0.0.1", options.port, {"up": lambda: not options.never_ready}):
            await asyncio.Event().wait()

    return run("stub", "info", serve)


if __name__ == "__main__":
    raise SystemExit(main())
