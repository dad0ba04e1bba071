import pytest
from dra_cli import commandline
from dra_lab import checkout
from dra_shared.errors import UserError

from tests.support.reference import REPOSITORY


def test_the_folder_of_an_example_is_found_in_the_checkout() -> None:
    assert checkout.folder("examples", "quickstart") == REPOSITORY / "examples" / "quickstart"


def test_the_error_names_a_folder_missing_from_the_checkout() -> None:
    with pytest.raises(UserError, match="nowhere is missing: run this from a checkout"):
        checkout.folder("nowhere")


def test_an_unknown_benchmark_lists_the_known_ones() -> None:
    with pytest.raises(
        UserError,
        match=r"unknown benchmark 'speed': choose allocator, apiserver, cluster, console, dump, everyday, hints, "
        "history, nodes, plan, podstart, running, scaling, scheduling, servers",
    ) as refused:
        checkout.run_benchmark("speed", [])
    known = str(refused.value).partition("choose ")[2]
    assert known in " ".join(commandline.parser("bench").format_help().split())
