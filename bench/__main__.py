"""``make bench``: run all benchmarks in turn, or the named ones: ``python -m bench cluster``.

A single benchmark accepts options: ``python -m bench scheduling --nodes 100``.
"""

import importlib
import itertools
import pkgutil
import sys

import bench


def main() -> None:
    """Run the benchmarks, each in its default size unless options say otherwise."""
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name[0] != "_")
    wanted = list(itertools.takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    options = sys.argv[1 + len(wanted) :]
    for name in wanted:
        if name not in names:
            raise SystemExit(f"no benchmark {name!r}: choose {', '.join(names)}")
    if options and len(wanted) != 1:
        raise SystemExit(
            f"usage: python -m bench [NAME...] or NAME OPTIONS, where NAME is {', '.join(names)}"
        )
    for name in wanted or names:
        print(f"== {name}", flush=True)
        importlib.import_module(f"bench.{name}").main(options)


if __name__ == "__main__":
    main()
