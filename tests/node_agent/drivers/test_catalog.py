"""A driver is one entry of the catalog."""

from pathlib import Path
from typing import Any

import dra_node_agent
import pytest
from dra_driverkit.errors import DriverConfigError
from dra_node_agent import main
from dra_node_agent.drivers import catalog
from dra_node_agent.drivers.base import DriverOption, DriverOptions
from dra_node_agent.drivers.catalog import DRIVERS, DriverEntry, find_driver, option_values
from dra_node_agent.drivers.placement import parse_placement


class _Toy:
    name = "toy.example.com"
    by_environment = False

    def __init__(self, options: DriverOptions) -> None:
        self.color = options.values["toy-color"]

    def device_classes(self) -> list[Any]:
        return []

    def on_node(self, node: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = DriverEntry(
        _Toy,
        (DriverOption("toy-color", "the color of the toy"),),
        lambda environment: {"toy-color": environment["COLOR"]},
    )
    monkeypatch.setattr(catalog, "DRIVERS", {**DRIVERS, _Toy.name: entry})


@pytest.mark.usefixtures("toy")
def test_an_entry_of_the_driver_catalog_adds_the_driver_its_flag_and_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["dralab-node-agent", "--help"])
    with pytest.raises(SystemExit):
        main.main()
    assert "the color of the toy" in capsys.readouterr().out
    values = option_values(_Toy.name, {"COLOR": "red"})
    driver = find_driver(_Toy.name, DriverOptions(tmp_path, tmp_path, values=values))
    assert isinstance(driver, _Toy)
    assert driver.color == "red"


def test_options_are_defined_only_in_the_driver() -> None:
    package = Path(dra_node_agent.__file__).parent
    for option in catalog.driver_options():
        spellings = {option.name, option.name.replace("-", "_")}
        files = {
            path.relative_to(package).parts[:2]
            for path in package.rglob("*.py")
            if any(spelling in path.read_text() for spelling in spellings)
        }
        assert files == {("drivers", "nvidia")}, option.name


def test_a_driver_may_be_limited_to_some_nodes() -> None:
    assert parse_placement("gpu.nvidia.com", 3).includes(2)
    chosen = parse_placement("./my.yaml:variant@0,2-3", 4)
    assert chosen.name == "./my.yaml:variant"
    assert [chosen.includes(number) for number in range(4)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu.nvidia.com@x", "want NAME@NODES, such as gpu.nvidia.com@0,2-4"),
        ("gpu.nvidia.com@", "want NAME@NODES"),
        ("gpu.nvidia.com@1-4", "there are only the nodes 0 to 3"),
        ("gpu.nvidia.com@2-1", "there are only the nodes 0 to 3"),
    ],
)
def test_a_placement_on_missing_nodes_is_rejected(text: str, message: str) -> None:
    with pytest.raises(DriverConfigError, match=message):
        parse_placement(text, 4)
