"""``python -m tools.site``: build the site, or print the problems of its pages."""

import argparse
import os
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Build the site and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.site", description="Build the documentation's site."
    )
    parser.add_argument("--out", type=Path, default=_ROOT / "site", help="the folder to write (site)")
    parser.add_argument("--url", default="", help="the address that it is published at")
    chosen = parser.parse_args()
    # Variables that are set would be shown as defaults of flags.
    for name in [name for name in os.environ if name.startswith("DRALAB_")]:
        del os.environ[name]
    from tools.reference import pages
    from tools.site.build import build

    began = time.monotonic()
    problems = build(_ROOT, chosen.out.resolve(), pages(), chosen.url)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    count = sum(1 for _ in chosen.out.rglob("*.html"))
    print(f"{chosen.out}: {count} pages in {time.monotonic() - began:.0f} s; `dralab docs` shows them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
