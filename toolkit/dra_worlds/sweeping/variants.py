"""The variants of a sweep's file: each combination of the options in its field ``vary``."""

import copy
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dra_scheduler.plan.objects import Objects
from dra_shared.errors import UserError
from dra_shared.jsontext import dumps

from dra_worlds import fleet
from dra_worlds.describe import describe_pools
from dra_worlds.edits import Changed, apply_change
from dra_worlds.working import Settings

# Names that ``vary`` may have, besides pools.NAME.FIELD and change. Each is a field of a change.
_FIELDS = ("featureGates", "kubernetesVersion", "config")
_OPTIONS = {"nvidiaGates": "nvidia-gates", "consumableShares": "consumable-shares"}


@dataclass(frozen=True)
class Variant:
    """A combination of options: ``settings`` has their texts and ``options`` their values, by the name in ``vary``."""

    name: str
    settings: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)


def read_variants(document: Mapping[str, Any], where: str) -> list[Variant]:
    """Return the variants of a sweep's file.

    Raises:
        UserError: ``vary`` has an unknown name or malformed options.
    """
    vary = document.get("vary") or {}
    if not isinstance(vary, dict):
        raise UserError(f"{where}: vary must be a mapping of names to lists of options")
    pools = {str(pool.get("name")) for pool in document.get("pools") or () if isinstance(pool, dict)}
    for name, options in vary.items():
        _check_name(str(name), pools, f"{where}: vary.{name}")
        if not isinstance(options, list) or not options:
            raise UserError(f"{where}: vary.{name}: must be a list of options")
    combinations = itertools.product(*vary.values())
    found = [_build_variant(dict(zip(vary, options, strict=True))) for options in combinations]
    if len({each.name for each in found}) < len(found):
        raise UserError(
            f"{where}: two variants are equal: give each option of change a name, and list no option twice"
        )
    return found


def _check_name(name: str, pools: set[str], where: str) -> None:
    kind, _, rest = name.partition(".")
    pool, _, attribute = rest.partition(".")
    if kind == "pools" and pool in pools and attribute:
        return
    if name not in (*_FIELDS, *_OPTIONS, "change"):
        known = ", ".join(("pools.POOL.FIELD", *_FIELDS, *_OPTIONS, "change"))
        raise UserError(f"{where}: unknown: choose {known}")


def _build_variant(options: dict[str, Any]) -> Variant:
    settings = {name: _text(option) for name, option in options.items()}
    words = [f"{name.removeprefix('pools.')}={text}" for name, text in settings.items()]
    return Variant(" ".join(words) or "as it is", settings, options)


def _text(option: Any) -> str:
    if isinstance(option, dict):
        return str(option.get("name") or dumps(option).decode())
    if isinstance(option, str | int | float):
        return str(option) or "none"
    return dumps(option).decode()


def build_world(
    document: Mapping[str, Any], variant: Variant, base: Changed, folder: Path
) -> tuple[Objects, Settings, tuple[str, ...]]:
    """Return the variant's objects and settings, and workloads of unknown kinds among its changes.

    Raises:
        UserError: a pool or a change is malformed.
    """
    pools = copy.deepcopy(document.get("pools") or [])
    values: dict[str, str] = {}
    change: dict[str, Any] = {"name": variant.name}
    for name, option in variant.options.items():
        if name == "change":
            change |= option if isinstance(option, dict) else {"objects": option}
        elif name in _OPTIONS:
            values[_OPTIONS[name]] = str(option)
        elif name in _FIELDS:
            change[name] = option
        else:
            _, pool, attribute = name.split(".", 2)
            for each in pools:
                if each.get("name") == pool:
                    each[attribute] = option
    found = [fleet.pool(each, f"pools[{number}]") for number, each in enumerate(pools)]
    described = describe_pools([each for each in found if each.nodes], values=values)
    objects = base.objects.with_objects(_list_objects(described))
    change = {name: option for name, option in change.items() if option not in (None, "")} | {
        "name": variant.name
    }
    after = apply_change(change, replace(base, objects=objects), variant.name, folder)
    return after.objects, after.settings, after.left_out


def _list_objects(objects: Objects) -> Iterator[Any]:
    return ((resource, obj) for resource, each in objects for obj in each.values())
