"""The plugins of each extension point of a profile (``pkg/scheduler/framework/runtime/framework.go``).

An extension point runs the plugins that the profile enables for it, and the plugins of ``multiPoint`` that
implement it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_scheduler.componentconfig.fielderrors import aggregate
from dra_scheduler.componentconfig.pluginargs import check_fit
from dra_scheduler.componentconfig.types import (
    KubeSchedulerProfile,
    NodeResourcesFitArgs,
    Plugin,
    Plugins,
    PluginSet,
    TypeMeta,
)

# The configuration's field for each extension point, in upstream's order.
_POINTS = {
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "reserve": "reserve",
    "preScore": "pre_score",
    "score": "score",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
    "permit": "permit",
    "preEnqueue": "pre_enqueue",
    "queueSort": "queue_sort",
    "placementGenerate": "placement_generate",
    "placementScore": "placement_score",
}
#: The extension points that each plugin implements, by its name.
Implemented = Mapping[str, frozenset[str]]
_MAX_NODE_SCORE = 100
_INT64 = 1 << 63
_OVERFLOWS = {
    "score": "score plugins: total score of Score plugins could overflow",
    "placementScore": "placement score plugins: total score of PlacementScore plugins could overflow",
}


class ProfileError(ValueError):
    """No scheduler can be built from the profile. The message is upstream's."""


@dataclass(frozen=True)
class Profile:
    """An effective profile: the plugins of each extension point, in order, and their weights."""

    scheduler_name: str
    points: Mapping[str, Sequence[str]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None
    args: Mapping[str, Any] = field(default_factory=dict)

    def args_of(self, plugin: str, kind: type[TypeMeta]) -> Any:
        """Return the plugin's arguments, or the zero value of their type if the profile has none."""
        found = self.args.get(plugin)
        return found if isinstance(found, kind) else kind()

    def runs(self, plugin: str, point: str) -> bool:
        """True if the plugin is enabled at that extension point."""
        return plugin in self.points.get(point, ())


def effective(profile: KubeSchedulerProfile, implemented: Implemented) -> Profile:
    """Return the effective profile.

    Raises:
        ProfileError: a plugin doesn't exist, is enabled twice, or a required one is missing; the message is
        upstream's.
    """
    plugins, name = profile.plugins or Plugins(), profile.scheduler_name or ""
    args = {plugin.name: plugin.args for plugin in profile.plugin_config or ()}
    _check_args(plugins, args)
    multi = plugins.multi_point.enabled or []
    sets: dict[str, PluginSet] = {point: getattr(plugins, field) for point, field in _POINTS.items()}
    points = {
        point: _plugins_of_point(point, found.enabled or (), implemented) for point, found in sets.items()
    }
    if multi:
        points = {
            point: _expand_multi_point(point, found, multi, implemented) for point, found in sets.items()
        }
    if len(points["queueSort"]) != 1:
        raise ProfileError(
            f'only one queue sort plugin required for profile with scheduler name "{name}", '
            f"but got {len(points['queueSort'])}"
        )
    if not points["bind"]:
        raise ProfileError(f'at least one bind plugin is needed for profile with scheduler name "{name}"')
    return Profile(
        name,
        points,
        _weights("score", plugins.score, multi, implemented),
        _weights("placementScore", plugins.placement_score, multi, implemented),
        profile.percentage_of_nodes_to_score,
        args,
    )


def _check_args(plugins: Plugins, args: Mapping[str, Any]) -> None:
    """Raise the errors that plugins find when they are created.

    Only the arguments of NodeResourcesFit are left to check.
    """
    fit = args.get("NodeResourcesFit")
    if not isinstance(fit, NodeResourcesFitArgs) or not _is_enabled(plugins, "NodeResourcesFit"):
        return
    errors = check_fit(fit)
    if errors:
        raise ProfileError(f'initializing plugin "NodeResourcesFit": {aggregate(errors)}')


def _is_enabled(plugins: Plugins, name: str) -> bool:
    fields = (*_POINTS.values(), "multi_point")
    return any(plugin.name == name for one in fields for plugin in getattr(plugins, one).enabled or ())


def _type_name(point: str) -> str:
    return f"{point[0].upper()}{point[1:]}Plugin"


def _plugins_of_point(point: str, enabled: Sequence[Plugin], implemented: Implemented) -> list[str]:
    """Return the plugins that the profile names for the extension point."""
    names: list[str] = []
    for plugin in enabled:
        name = plugin.name
        if name not in implemented:
            raise ProfileError(f'{_type_name(point)} "{name}" does not exist')
        if point not in implemented[name]:
            raise ProfileError(f'plugin "{name}" does not extend {_type_name(point)} plugin')
        if name in names:
            raise ProfileError(f'plugin "{name}" already registered as "{_type_name(point)}"')
        names.append(name)
    return names


def _expand_multi_point(
    point: str, found: PluginSet, multi: Sequence[Plugin], implemented: Implemented
) -> list[str]:
    """Return a point's plugins: those it shares with multiPoint, the rest of multiPoint, then those only it enables."""
    named = [plugin.name for plugin in found.enabled or ()]
    disabled = {plugin.name for plugin in found.disabled or ()}
    if "*" in disabled:
        return named
    spread: list[str] = []
    again: set[str] = set()
    for plugin in multi:
        name = plugin.name
        if name not in implemented:
            raise ProfileError(f'{_type_name(point)} "{name}" does not exist')
        if point not in implemented[name] or name in disabled:
            continue
        if name in named:
            again.add(name)
        elif name in spread:
            raise ProfileError(f'plugin "{name}" already registered as "{_type_name(point)}"')
        else:
            spread.append(name)
    return [
        *(name for name in named if name in again),
        *spread,
        *(name for name in named if name not in again),
    ]


def _weights(
    point: str, found: PluginSet, multi: Sequence[Plugin], implemented: Implemented
) -> dict[str, int]:
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*(found.enabled or ()), *multi):
        if point not in implemented[plugin.name] or plugin.name in weights:
            continue
        weights[plugin.name] = weight = plugin.weight or 1
        # As in Go, a negative weight makes the remaining amount wrap around.
        left = (_INT64 - 1 - total + _INT64) % (2 * _INT64) - _INT64
        if weight * _MAX_NODE_SCORE > left:
            raise ProfileError(_OVERFLOWS[point])
        total += weight * _MAX_NODE_SCORE
    return weights
