"""The flags of a service."""

import argparse
import importlib

from dra_cli import commandline
from dra_driverkit.program import option_parser
from dra_shared.service import Options


def service_options(package: str) -> argparse.ArgumentParser:
    """Return the service's options, as its process builds them. ``dra_driver`` is any driver."""
    if package == "dra_driver":
        return option_parser("NAME", {})
    options: Options = importlib.import_module(f"{package}.main").options()
    return options


def flags_of(command: str) -> list[str]:
    """Return the flags of a command of ``dralab``, except ``--help``."""
    parser = commandline.parser(command)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    return [flag for flag in flags if flag not in ("-h", "--help")]
