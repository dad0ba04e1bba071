"""Two revisions are compared by their own benchmarks, in turns."""

import json
import subprocess
from pathlib import Path

import pytest

from tools import benchcompare

_PROJECT = '[tool.hatch.build]\ndev-mode-dirs = ["lib"]\n'
_BENCH = """
import json, sys
import speed
log = open({log!r}, "a")
print(speed.SECONDS, file=log)
print("== " + sys.argv[1])
print(json.dumps({{"seconds": speed.SECONDS, "nodes": 5, "cpu": {{"server": [1, 2, speed.SECONDS]}}}}))
"""


def _git(tree: Path, *arguments: str) -> None:
    names = ("-c", "user.name=n", "-c", "user.email=e@example.com")
    subprocess.run(["git", "-C", str(tree), *names, *arguments], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a repository whose base took 4 seconds. Its working tree takes 2."""
    tree = tmp_path / "tree"
    for folder in ("bench", "lib"):
        (tree / folder).mkdir(parents=True)
    (tree / "pyproject.toml").write_text(_PROJECT)
    (tree / "bench" / "__main__.py").write_text(_BENCH.format(log=str(tmp_path / "log")))
    (tree / "lib" / "speed.py").write_text("SECONDS = 4\n")
    _git(tree, "init", "--quiet")
    _git(tree, "add", ".")
    _git(tree, "commit", "--quiet", "--message", "base")
    (tree / "lib" / "speed.py").write_text("SECONDS = 2\n")
    return tree


def test_working_tree_is_compared_with_a_revision_in_turns(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchcompare.main(["--base", "HEAD", "--turns", "2", "scheduling"], tree)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["figure", "base", "changed", "ratio", "from", "to"],
        ["seconds", "4", "2", "0.500", "0.500", "0.500"],
    ]
    assert (tmp_path / "log").read_text().split() == ["4", "2", "2", "4"]
    listed = subprocess.run(
        ["git", "-C", str(tree), "worktree", "list"], check=True, capture_output=True, text=True
    )
    assert len(listed.stdout.splitlines()) == 1


def test_failed_benchmark_ends_the_comparison_with_its_output(tree: Path) -> None:
    (tree / "bench" / "__main__.py").write_text("raise SystemExit('no cluster')\n")
    with pytest.raises(SystemExit, match="no cluster"):
        benchcompare.main(["--base", "HEAD", "scheduling"], tree)


def test_comparing_revisions_requires_the_name_of_a_benchmark(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        benchcompare.main(["--base", "HEAD"], tree)
    assert "name a benchmark" in capsys.readouterr().err


def test_numbers_of_a_benchmark_result_are_named_by_their_json_paths() -> None:
    answer = json.loads('{"a": 1, "b": {"c": [1, 2, 9]}, "d": [{"e": 2.5}, "text"], "f": true, "g": "text"}')
    assert dict(benchcompare.flatten(answer)) == {"a": 1, "b.c": 2, "d.0.e": 2.5}


def test_ratios_of_two_revisions_are_shown_with_median_and_range() -> None:
    base = [{"s": 2.0, "zero": 0.0}, {"s": 4.0, "zero": 0.0}, {"s": 2.0, "zero": 0.0}]
    changed = [{"s": 4.0, "zero": 1.0}, {"s": 2.0, "zero": 1.0}, {"s": 2.0, "zero": 1.0}]
    assert benchcompare.compare(base, changed)[1].split() == ["s", "2", "2", "1.000", "0.500", "2.000"]
