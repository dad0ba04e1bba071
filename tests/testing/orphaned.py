"""A cluster whose process is killed. Prints the PIDs of the cluster's processes and waits."""

import asyncio
import sys
from pathlib import Path

from dra_kube.cluster import Cluster
from dra_testing.options import Options
from dra_testing.processes import Processes


async def main() -> None:
    """Run a cluster in the folder that the argument names."""
    folder = Path(sys.argv[1])
    async with Processes(Options(nodes=0), folder):
        record = Cluster(folder).record()
        pids = [record.pid, *(service.pid for service in record.services.values())]
        sys.stdout.write(" ".join(map(str, pids)) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
