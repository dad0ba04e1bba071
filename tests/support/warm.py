"""Services of clusters that tests start in their own process, as forks of the process that `dralab warm` started."""

import contextlib
from collections.abc import Iterator

from dra_lab.forkserver import SERVERS, ForkServer, connect


@contextlib.contextmanager
def warm_forks() -> Iterator[list[ForkServer]]:
    """Yield the fork server of the warm process, or nothing if the tests run without one."""
    connection = connect()
    if connection is None:
        yield []
        return
    modules = [module for services, _ in SERVERS for module in services]
    with contextlib.closing(ForkServer(modules, server=connection)) as server:
        yield [server]
