"""The health service that a kubelet watches, by its version and the driver's."""

from collections.abc import Sequence

import pytest
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError, NoHealth, health_service
from dra_shared.version import V1_34, V1_36, V1_37, Version

from tests.support.cases import each_case
from tests.support.kubelet.fakedriver import FakeDriver

_OLD, _NEW = ["v1alpha1"], ["v1", "v1alpha1"]


def _services(versions: Sequence[str]) -> list[str]:
    return ["v1.DRAPlugin", *(f"{version}.DRAResourceHealth" for version in versions)]


@each_case(
    ("kubernetes", "offered", "watched"),
    [
        (V1_34, _NEW, "v1alpha1"),
        (V1_36, _NEW, "v1alpha1"),
        (V1_36, [], "v1alpha1"),
        (V1_37, _NEW, "v1"),
        (V1_37, _OLD, "v1alpha1"),
        (V1_37, [], None),
    ],
)
def test_the_newest_common_health_service_is_watched(
    kubernetes: Version, offered: list[str], watched: str | None
) -> None:
    found = health_service(_services(offered), kubernetes)
    assert found == (watched and f"{watched}.DRAResourceHealth")


@pytest.mark.parametrize(
    ("kubernetes", "served", "offered"),
    [(V1_36, _NEW, _NEW), (V1_37, _OLD, _OLD), (V1_37, ["v1"], ["v1"]), (V1_36, _OLD, [])],
    ids=["new driver, old kubelet", "old driver, new kubelet", "v1 alone", "not offered, old kubelet"],
)
async def test_health_reports_of_each_service_version_are_received(
    kubernetes: Version, served: list[str], offered: list[str]
) -> None:
    async with FakeDriver(health=served) as driver:
        plugin = DriverConnection("driver", driver.endpoint, _services(offered), kubernetes=kubernetes)
        driver.reports.put_nowait([("pool", "dev", 2, "hot")])
        driver.reports.put_nowait(None)
        reports = [report async for report in plugin.watch_health()]
        assert [(device.device_name, device.message) for device in reports[0]] == [("dev", "hot")]
        await plugin.close()


@pytest.mark.parametrize(
    ("kubernetes", "served", "offered", "error"),
    [
        (V1_36, ["v1"], ["v1"], NoHealth),
        (V1_37, _NEW, [], NoHealth),
        (V1_37, [], _NEW, NoHealth),
        (V1_36, [], _OLD, DriverError),
    ],
    ids=["new driver, old kubelet", "not offered", "reports nothing", "old kubelet tries again"],
)
async def test_watching_health_fails_without_a_common_service(
    kubernetes: Version, served: list[str], offered: list[str], error: type[DriverError]
) -> None:
    async with FakeDriver(health=served) as driver:
        plugin = DriverConnection("driver", driver.endpoint, _services(offered), kubernetes=kubernetes)
        with pytest.raises(DriverError) as caught:
            async for _ in plugin.watch_health():
                pass
        assert type(caught.value) is error
        await plugin.close()
