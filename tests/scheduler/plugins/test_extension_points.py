"""A plugin has the extension points whose methods it implements. Profiles enable plugins at extension points."""

import pytest
from dra_scheduler.componentconfig.profiles import ProfileError
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import extension_points
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status
from dra_scheduler.plugins import profiles, registry
from dra_scheduler.plugins.profiles import load
from dra_shared.api.pod import Pod
from dra_shared.features import FeatureGates

_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {POINT: {enabled: [{name: Quiet}]}}}]
"""


class _Quiet:
    """A plugin from outside the package."""

    name = "Quiet"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


def test_plugin_has_the_points_of_its_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extension_points(_Quiet) == {"preEnqueue", "filter"}
    monkeypatch.setitem(profiles._IMPLEMENTED, _Quiet.name, extension_points(_Quiet))
    (profile,) = load(_PROFILE.replace("POINT", "multiPoint"), FeatureGates()).profiles
    assert [point for point, names in profile.points.items() if "Quiet" in names] == ["filter", "preEnqueue"]
    with pytest.raises(ProfileError, match='plugin "Quiet" does not extend ScorePlugin plugin'):
        load(_PROFILE.replace("POINT", "score"), FeatureGates())


def test_every_plugin_has_an_extension_point() -> None:
    assert all(extension_points(plugin) for plugin in registry.PLUGINS)
