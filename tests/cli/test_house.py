from pathlib import Path

import pytest
from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError
from dra_cli.house import House, HouseOptions, Reporter


def _services(tmp_path: Path, *without: str) -> list[str]:
    house = House(Cluster(tmp_path), HouseOptions(port=0, without=without))
    return list(house.supervisor(Reporter()).pids())


def test_services_can_be_left_out(tmp_path: Path) -> None:
    assert _services(tmp_path) == ["apiserver", "controller", "scheduler", "node-agent"]
    assert _services(tmp_path, "scheduler", "node-agent") == ["apiserver", "controller"]


def test_what_cannot_be_left_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--without apiserver: choose controller, scheduler, node-agent"):
        _services(tmp_path, "apiserver")
