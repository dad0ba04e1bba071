import pytest
from dra_cli import commandline
from dra_lab import checkout
from dra_shared.errors import UserError

from tests.support.reference import REPOSITORY


def test_finds_the_quickstart() -> None:
    assert checkout.folder("examples", "quickstart") == REPOSITORY / "examples" / "quickstart"


def test_names_what_is_missing() -> None:
    with pytest.raises(UserError, match="nowhere is missing: run this from a checkout"):
        checkout.folder("nowhere")


def test_lists_benchmarks_when_one_is_unknown() -> None:
    with pytest.raises(
        UserError,
        match=r"unknown benchmark 'speed': choose allocator, apiserver, cluster, console, dump, everyday, hints, "
        "history, nodes, plan, podstart, running, scaling, scheduling, servers",
    ) as refused:
        checkout.run_benchmark("speed", [])
    known = str(refused.value).partition("choose ")[2]
    assert known in " ".join(commandline.parser("bench").format_help().split())
