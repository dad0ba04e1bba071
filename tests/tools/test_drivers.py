"""Running the driver suite on published drivers: the list, the command and the table."""

import re

from dra_conformance.driverprocess import fill_placeholders

from tests.support.cases import each_case
from tests.support.reference import REPOSITORY
from tools.drivers.__main__ import Driver, read_drivers, row

_DRIVERS = read_drivers()
_PAGE = (REPOSITORY / "docs/driver-results.md").read_text()
_VALUES = dict.fromkeys(
    (
        "node_name",
        "kubeconfig",
        "kubelet_dir",
        "plugins_dir",
        "registry_dir",
        "cdi_dir",
        "work_dir",
        "namespace",
    ),
    "x",
)


@each_case("driver", _DRIVERS, ids=lambda driver: driver.name)
def test_a_driver_of_the_list_can_be_started(driver: Driver) -> None:
    values = {**_VALUES, "pod_uid": "0", "devices": "8"}
    assert "{" not in "".join(fill_placeholders(driver.arguments, values))
    assert set(driver.stubs) <= {"nvml", "intel-gpu", "intel-qat", "kubelet", "nri", "cdi", "accel"}
    assert driver.repository.startswith("https://github.com/")
    assert re.fullmatch(r"[0-9a-f]{7,40}", driver.commit)
    needs_root = "$ROOT" in f"{driver.arguments}{driver.environment}"
    assert needs_root == bool({"nvml", "intel-gpu", "intel-qat"} & set(driver.stubs))


def test_every_driver_of_the_list_has_a_row_on_the_page() -> None:
    rows = re.findall(r"^\| \[([\w-]+)\]\((\S+)\) at (\w+) \|", _PAGE, re.MULTILINE)
    assert sorted(rows) == sorted((one.name, one.repository, one.commit) for one in _DRIVERS)


def test_a_row_lists_the_broken_checks_of_a_driver_and_those_that_could_not_be_judged() -> None:
    driver = Driver("d", "https://github.com/o/d", "1234567", "./cmd", stubs=("nri",))
    outcomes = {"a.b": "kept", "a.c": "broken", "a.d": "warning", "a.e": "skipped", "a.f": "not shown"}
    result = {
        "counts": dict.fromkeys(outcomes.values(), 1),
        "checks": [{"id": name, "outcome": outcome} for name, outcome in outcomes.items()],
    }
    assert row(driver, result) == (
        "| [d](https://github.com/o/d) at 1234567 | nri | 1 of 3 | `a.c` | `a.d` | `a.f` |"
    )
