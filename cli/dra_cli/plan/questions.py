"""The words of ``plan drain``, ``taint`` and ``change``, turned into questions about a world."""

import argparse
import dataclasses
import re
import time
from collections.abc import Mapping

import msgspec
from dra_scheduler.plan.change import places
from dra_scheduler.plan.fit import PodPlace, Wanted
from dra_scheduler.plan.moves import Mover, Moves
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.packing.freeing import Freer
from dra_scheduler.plan.packing.packer import Packer
from dra_scheduler.plan.replaying.answer import Course, Replay
from dra_scheduler.plan.replaying.replayer import Replayer
from dra_scheduler.plan.simulation import Stopped
from dra_shared.api.node import Taint
from dra_shared.api.resource import DeviceTaint
from dra_shared.api.resources import NODES, RESOURCE_SLICES

from dra_cli.errors import CommandError
from dra_cli.plan.edits import Changed, changed
from dra_cli.plan.reading import from_source, typed
from dra_cli.plan.sources import Source
from dra_cli.plan.timeline import timeline, without_pods
from dra_cli.plan.wanted import asked_of
from dra_cli.plan.working import Progress, Settings, new_simulation, simulation, uncertain_gates

_TAINT = re.compile(
    r"(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?:(?P<effect>NoSchedule|NoExecute|PreferNoSchedule)"
)


def moves(mover: Mover, chosen: argparse.Namespace, objects: Objects) -> Moves:
    """The answer of ``drain``, ``remove``, ``upgrade`` or ``taint``.

    Raises:
        CommandError: a node or device does not exist, or the taint is malformed.
    """
    if chosen.question == "taint":
        return _taint(mover, chosen.target, chosen.taint, objects)
    names = list(dict.fromkeys(chosen.nodes_named)) or list(objects.of(NODES))
    for name in names:
        _check_node(name, objects)
    ask = {"drain": mover.drain, "remove": mover.remove, "upgrade": mover.upgrade}
    return ask[chosen.question](names)


def _taint(mover: Mover, target: str, text: str, objects: Objects) -> Moves:
    parts = _TAINT.fullmatch(text)
    if parts is None:
        raise CommandError(f"taint {text!r} is not of the form KEY[=VALUE]:NoSchedule or :NoExecute", 2)
    kind, _, name = target.partition("/")
    key, value, effect = parts["key"], parts["value"] or "", parts["effect"]
    if kind == "node":
        _check_node(name, objects)
        return mover.taint_node(name, Taint(key=key, value=value, effect=effect))
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    if kind != "device" or not pool:
        raise CommandError(f"cannot taint {target!r}: choose node/NAME or device/DRIVER/POOL/DEVICE", 2)
    known = any(
        (piece.spec.driver, piece.spec.pool.name) == (driver, pool)
        and any(each.name == device for each in piece.spec.devices)
        for piece in objects.of(RESOURCE_SLICES).values()
    )
    if not known:
        raise CommandError(f"there is no device {driver}/{pool}/{device}")
    return mover.taint_device(driver, pool, device, DeviceTaint(key=key, value=value, effect=effect))


def _check_node(name: str, objects: Objects) -> None:
    if name not in objects.of(NODES):
        raise CommandError(f'there is no node "{name}"')


def packing(source: Source, chosen: argparse.Namespace, progress: Progress) -> Packing:
    """The answer of ``pack``.

    Raises:
        CommandError: the wanted pods cannot be read.
    """
    objects = source.objects
    settings = Settings.of(chosen, source.running)
    asked = asked_of(source, chosen.file, settings, chosen.namespace) if chosen.file else None
    end = time.monotonic() + chosen.time
    new = new_simulation(objects, asked, settings)
    world = new(progress.running)
    world.load((resource, each.values()) for resource, each in objects)
    answer = Packer(world, objects, progress.at).answer()
    world.close()
    if asked is None or not answer.complete:
        return answer

    def go_on() -> None:
        if not progress.running() or time.monotonic() > end:
            raise Stopped

    room, _ = Freer(objects, asked, new, go_on).answer(chosen.count)
    return msgspec.structs.replace(answer, room=room, complete=progress.going)


def replayed(source: Source, chosen: argparse.Namespace, progress: Progress) -> tuple[Replay, list[str]]:
    """The answer of ``replay``, and what of the timeline could not be read.

    Raises:
        CommandError: the timeline or the changes cannot be read.
    """
    objects = source.objects
    settings = Settings.of(chosen, source.running)
    shapes = asked_of(source, chosen.shapes, settings) if chosen.shapes else None
    times, problems = timeline(chosen.file, objects, shapes)
    start = Changed("as it is", without_pods(objects, times.arrivals), settings)
    worlds = [start, *(changed(chosen.changes, start) if chosen.changes else ())]
    asked = Wanted([each.pod for each in times.arrivals], times.groups, times.others)
    courses: list[Course] = []
    for each in worlds:
        new = new_simulation(each.objects, asked, each.settings)
        world = new(progress.running)
        world.load((resource, found.values()) for resource, found in each.objects)
        try:
            courses.append(Replayer(world, times, progress.at).run(each.name, chosen.starved_after))
        except Stopped:
            break
        finally:
            world.close()
    return Replay(courses=tuple(courses), complete=len(courses) == len(worlds)), problems


def before_and_after(
    source: Source, chosen: argparse.Namespace
) -> tuple[Mapping[str, PodPlace], Mapping[str, PodPlace]]:
    """Where pods go in the world, and where with the changed objects of the file.

    Raises:
        CommandError: the file cannot be read.
    """
    problems: list[str] = []
    edited = list(typed(from_source(chosen.file, problems), problems))
    if problems:
        raise CommandError(problems[0])
    before = Settings.of(chosen, source.running)
    after = dataclasses.replace(
        before.changed_to(chosen.version_after),
        gates=chosen.gates_after or before.gates,
        config=chosen.config_after or before.config,
    )
    if not edited and after == before:
        raise CommandError(f"nothing is changed: there are no objects in {chosen.file}")
    objects = source.objects
    changed_objects = objects.with_objects(edited)
    if after.before is None:
        source.problems.extend(uncertain_gates(objects, after, asked=Wanted((), (), edited)))
    return (
        places(simulation(objects, None, before, lambda: True)),
        places(simulation(changed_objects, None, after, lambda: True)),
    )
