"""Run a benchmark on two revisions in turns, and print the ratio of each figure with its spread.

``python -m tools.benchcompare --base REVISION scheduling --nodes 100`` compares the working tree with a revision. Each
turn runs both, the base first in every other turn, so that a machine that slows down does so for both. The benchmark
must have ``--json``. Each revision runs its own programs and its own benchmark, with the packages that are installed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Figures = Mapping[str, float]

_ROOT = Path(__file__).parents[1]


def flatten(answer: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a JSON value, each with its path. A list of numbers yields its median."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            yield from flatten(value, f"{prefix}.{name}" if prefix else name)
    elif isinstance(answer, list):
        numbers = [value for value in answer if _is_number(value)]
        if numbers and len(numbers) == len(answer):
            yield prefix, statistics.median(numbers)
        else:
            for index, value in enumerate(answer):
                yield from flatten(value, f"{prefix}.{index}")
    elif _is_number(answer):
        yield prefix, float(answer)


def compare(base: Sequence[Figures], changed: Sequence[Figures]) -> list[str]:
    """Return a table: the medians of each figure on both sides, and the ratios' median and range.

    Figures that are 0, that only one side has, or that are the same in all runs (such as sizes), are left out.
    """
    rows: list[tuple[str, ...]] = [("figure", "base", "changed", "ratio", "from", "to")]
    for name in base[0]:
        turns = [(one.get(name, 0.0), other.get(name, 0.0)) for one, other in zip(base, changed, strict=True)]
        if len({*turns}) == 1 and turns[0][0] == turns[0][1]:
            continue
        if all(one and other for one, other in turns):
            ratios = [other / one for one, other in turns]
            medians = (statistics.median(side) for side in zip(*turns, strict=True))
            values = (statistics.median(ratios), min(ratios), max(ratios))
            rows.append((name, *(f"{value:.4g}" for value in medians), *(f"{value:.3f}" for value in values)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def run(tree: Path, command: Sequence[str]) -> Figures:
    """Run a benchmark of a source tree and return its figures.

    Raises:
        SystemExit: it failed, or printed no JSON.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_source_folders(tree))}
    done = subprocess.run(
        [sys.executable, "-m", "bench", *command, "--json"],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
    )
    start = done.stdout.find("{")
    if done.returncode or start < 0:
        raise SystemExit(f"bench {' '.join(command)} failed in {tree}:\n{done.stdout}{done.stderr}")
    # JSON follows the heading that names the benchmark.
    return dict(flatten(json.loads(done.stdout[start:])))


def _source_folders(tree: Path) -> list[str]:
    project = tomllib.loads((tree / "pyproject.toml").read_text())
    return [str(tree / name) for name in (".", *project["tool"]["hatch"]["build"]["dev-mode-dirs"])]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def main(arguments: Sequence[str] | None = None, root: Path = _ROOT) -> None:
    """Compare the working tree with a revision."""
    parser = argparse.ArgumentParser(
        prog="benchcompare", description=__doc__, usage="%(prog)s --base REV NAME OPTIONS"
    )
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--turns", type=int, default=3, help="how often each revision runs")
    options, command = parser.parse_known_args(arguments)
    if not command or command[0].startswith("-") or options.turns < 1:
        parser.error("name a benchmark and at least one turn, as in: --base HEAD~10 scheduling --nodes 100")
    base: list[Figures] = []
    changed: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="dralab-bench-base-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), options.base], check=True)
        try:
            for turn in range(options.turns):
                sides = [(tree, base), (root, changed)]
                for where, figures in sides if turn % 2 == 0 else reversed(sides):
                    figures.append(run(where, command))
                print(f"turn {turn + 1} of {options.turns}", file=sys.stderr, flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    print(*compare(base, changed), sep="\n")


if __name__ == "__main__":
    main()
