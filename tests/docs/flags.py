"""The flags that a service takes."""

import argparse
import importlib

import pytest
from dra_cli import commandline
from dra_shared.service import Options


class _Built(Exception):
    def __init__(self, parser: Options) -> None:
        self.parser = parser


def service_options(package: str, monkeypatch: pytest.MonkeyPatch) -> Options:
    """The service's options, as its process builds them."""

    def stop(self: Options, *_: object) -> argparse.Namespace:
        raise _Built(self)

    monkeypatch.setattr(Options, "parse_args", stop)
    with pytest.raises(_Built) as caught:
        importlib.import_module(f"{package}.main").main()
    return caught.value.parser


def flags_of(command: str) -> list[str]:
    """The flags of a command of ``dralab``, but for ``--help``."""
    parser = commandline.parser(command)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    return [flag for flag in flags if flag not in ("-h", "--help")]
