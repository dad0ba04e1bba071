import pytest
from dra_controller.names import canonical_name, select
from dra_controller.registry import CONTROLLERS

from tests.support.cases import each_case

_SOME = ["deployment-controller", "device-taint-eviction-controller", "resourceclaim-controller"]


@each_case(
    ("asked", "chosen"),
    [
        (["*"], _SOME),
        (["*", "-device-taint-eviction"], [_SOME[0], _SOME[2]]),
        (["*", "-device-taint-eviction-controller"], [_SOME[0], _SOME[2]]),
        (["deployment"], [_SOME[0]]),
        (["-deployment", "*"], _SOME[1:]),
        (["-deployment"], []),
        (["deployment", "-deployment"], [_SOME[0]]),
        (["*", "-endpoints-controller"], _SOME),
        ([], []),
    ],
)
def test_controllers_are_selected_by_name_star_and_minus(asked: list[str], chosen: list[str]) -> None:
    assert select(asked, _SOME) == chosen


@pytest.mark.parametrize("name", ["podgc", "garbagecollector", "resource-claim-controller", "nodelifecycle"])
def test_former_names_of_controllers_are_accepted(name: str) -> None:
    assert canonical_name(name) in CONTROLLERS


def test_unknown_controller_names_are_rejected() -> None:
    with pytest.raises(ValueError, match='"nonsense" is not in the list of known controllers'):
        select(["*", "-nonsense"], _SOME)


def test_every_controller_has_its_upstream_name() -> None:
    assert all(canonical_name(name) == name for name in CONTROLLERS)
