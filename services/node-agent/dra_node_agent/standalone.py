"""One of dralab's drivers as a process of its own, for any kubelet: ``dralab-driver NAME``.

Its options are those of drivers that are built with kubeletplugin. Simulated machines have their usual
options (``services/node-agent/dra_node_agent/drivers/catalog.py``), from the environment of the driver's
chart.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dra_driverkit.errors import DriverConfigError
from dra_driverkit.program import Surroundings, run
from dra_shared.clock import SystemClock
from dra_shared.version import V1_37

from dra_node_agent.drivers.base import DriverNode, DriverOptions
from dra_node_agent.drivers.catalog import find_driver, option_values


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run the driver until SIGTERM. Return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    variables = os.environ if environment is None else environment
    parser = argparse.ArgumentParser(
        prog="dralab-driver",
        description="One of dralab's drivers on one node; dralab-driver NAME --help lists its options.",
    )
    parser.add_argument("name", help="a driver, or a profile's file, optionally with :variant")
    name = parser.parse_args(words[:1]).name

    async def serve(found: Surroundings) -> None:
        kubelet_root = found.directories.registrar.parent
        plugin = found.directories.plugin
        if (
            plugin.parent != kubelet_root / "plugins"
            or found.directories.registrar.name != "plugins_registry"
        ):
            raise DriverConfigError("plugins and plugins_registry have to be in one directory, the kubelet's")
        options = DriverOptions(
            driver_root=plugin / "driver-root",
            machines=plugin / "machines",
            values=option_values(name.partition(":")[0], variables),
        )
        clock = SystemClock()
        node = DriverNode(
            found.node_name,
            kubelet_root,
            found.directories.cdi,
            found.client,
            clock,
            kubernetes=V1_37,
            instance=found.instance,
        )
        async with find_driver(name, options).on_node(node):
            await asyncio.Event().wait()

    # A profile may be a path. Directories get the name of its last part.
    return run(Path(name).name, serve, words[1:], variables)


if __name__ == "__main__":
    raise SystemExit(main())
