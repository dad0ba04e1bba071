"""Measure several API servers on one database: creates at the first server, and the delay of watches at the last one.

The database is a new schema of ``--database postgresql://…``, or SQLite. One client creates claims one after the
other. The delay is the time from sending the create request until a watcher has received the event.
"""

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench._processes import database
from bench.apiserver import Server, claim, rate, request, watch_latency

_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_WATCHERS = 10


async def _measure(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        more = stack.enter_context(database(options.database))
        servers = []
        for _ in range(options.servers):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            servers.append(Server(Path(folder), False, *more))
            stack.callback(servers[-1].stop)
            await servers[-1].ready()
        first, last = servers[0], servers[-1]

        def create(number: int) -> bytes:
            return request("POST", _CLAIMS, claim(f"created-{number}"))

        created, cost = await rate(first, options.connections, options.seconds, create, (201,))
        delays = sorted(await watch_latency(first, _WATCHERS, options.events, "servers", last))
    print(
        f"{'PostgreSQL' if more else 'SQLite'}, {options.servers} servers: create, {options.connections} connections: "
        f"{created:,.0f}/s, {cost:.0f} us of the server's CPU each; watch: p50 {statistics.median(delays):.2f} ms, "
        f"p99 {delays[int(len(delays) * 0.99)]:.2f} ms"
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one line."""
    parser = argparse.ArgumentParser(prog="bench servers", description=__doc__)
    parser.add_argument("--database", default="", help="the URL of a PostgreSQL database; default: SQLite")
    parser.add_argument("--servers", type=int, default=1, help="the number of API servers on the database")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--events", type=int, default=500, help="how many creates the watchers measure")
    options = parser.parse_args(arguments)
    if options.servers > 1 and not options.database:
        parser.error("several servers need --database")
    uvloop.run(_measure(options))


if __name__ == "__main__":
    main()
