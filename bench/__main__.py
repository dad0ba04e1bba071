"""``make bench``: every benchmark after the other, or those that are named: ``python -m bench house``."""

import importlib
import pkgutil
import sys

import bench


def main() -> None:
    """Run the benchmarks, each in its default size."""
    names = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name[0] != "_")
    wanted = sys.argv[1:] or names
    for name in wanted:
        if name not in names:
            raise SystemExit(f"no benchmark {name!r}: choose {', '.join(names)}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"bench.{name}").main([])


if __name__ == "__main__":
    main()
