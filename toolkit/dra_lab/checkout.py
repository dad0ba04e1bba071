"""Files of a checkout that the installed packages lack: examples and benchmarks.

The distribution includes the examples, so that `dralab demo` and `dralab new examples` need no checkout.
"""

import importlib
import sys
from pathlib import Path

from dra_shared.errors import UserError

_ROOT = Path(__file__).resolve().parents[2]
_INSTALLED = Path(__file__).resolve().parent


def folder(*parts: str) -> Path:
    """Return a folder of the checkout.

    Raises:
        UserError: the command was not installed from a checkout.
    """
    path = _ROOT.joinpath(*parts)
    installed = _INSTALLED.joinpath(*parts)
    if installed.is_dir():
        return installed
    if not path.is_dir():
        raise UserError(f"{path} is missing: run this from a checkout of the repository")
    return path


def run_benchmark(name: str, arguments: list[str]) -> None:
    """Run ``bench/<name>.py`` with its own arguments.

    Raises:
        UserError: there is no such benchmark.
    """
    known = sorted(path.stem for path in folder("bench").glob("*.py") if not path.stem.startswith("_"))
    if name not in known:
        raise UserError(f"unknown benchmark {name!r}: choose {', '.join(known)}", 2)
    sys.path.insert(0, str(_ROOT))
    importlib.import_module(f"bench.{name}").main(arguments)
