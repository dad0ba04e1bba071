"""The words of ``dralab plan``, turned into questions to the planner."""

import argparse
import dataclasses
from itertools import chain

import msgspec
from dra_scheduler.plan.change import Comparison
from dra_scheduler.plan.engine import Engine
from dra_scheduler.plan.fit import Fit, Wanted
from dra_scheduler.plan.moves import Moves
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.purchase.answer import Purchase
from dra_scheduler.plan.replaying.answer import Replay
from dra_shared.api.resources import NODES
from dra_shared.errors import UserError
from dra_shared.selectors import SelectorError, parse_label_selector
from dra_worlds.reading import from_source, manifests
from dra_worlds.running import Running
from dra_worlds.sources import Source
from dra_worlds.tainting import taint
from dra_worlds.timeline import timeline
from dra_worlds.wanted import wanted
from dra_worlds.working import Progress, Settings


def planner(source: Source, chosen: argparse.Namespace, progress: Progress) -> Planner:
    """Return a planner for the world, with a scheduler that runs as the options say.

    Raises:
        UserError: the version, a feature gate or the configuration is malformed.
    """
    engine = Engine(_settings(chosen, source.running).setup(), running=progress.running)
    return Planner(
        source.objects,
        engine,
        problems=source.problems,
        running=progress.running,
        progress=progress.at,
    )


def fit(asked: Planner, chosen: argparse.Namespace) -> Fit:
    """Answer ``plan fit``."""
    pods = wanted(chosen.file, asked.objects, chosen.namespace)
    return asked.fit(pods, chosen.count, most=chosen.most, more=True)


def moves(asked: Planner, chosen: argparse.Namespace) -> Moves:
    """Answer ``plan drain``, ``remove``, ``upgrade`` or ``taint``.

    Raises:
        UserError: no node is named, or the selector is malformed or selects none.
    """
    if chosen.question == "taint":
        return taint(asked, chosen.target, chosen.taint)
    ask = {"drain": asked.drain, "remove": asked.remove, "upgrade": asked.upgrade}
    return ask[chosen.question](_find_nodes(asked, chosen))


def _find_nodes(asked: Planner, chosen: argparse.Namespace) -> list[str]:
    """Return the nodes that are named or selected. As with kubectl drain, not both."""
    named: list[str] = chosen.nodes_named
    if not chosen.selector:
        if not named and chosen.question != "upgrade":
            raise UserError(f"name the nodes to {chosen.question}, or select them with --selector", 2)
        return named
    if named:
        raise UserError("cannot specify both a node name and a --selector option", 2)
    try:
        selector = parse_label_selector(chosen.selector)
    except SelectorError as error:
        raise UserError(f"--selector: {error}", 2) from error
    found = [
        node.metadata.name
        for node in asked.objects.of(NODES).values()
        if selector.matches(node.metadata.labels)
    ]
    if not found:
        raise UserError(f"no node has the labels {chosen.selector}")
    return found


def change(asked: Planner, source: Source, chosen: argparse.Namespace) -> Comparison:
    """Answer ``plan change``.

    Raises:
        UserError: the file cannot be read, or nothing is changed.
    """
    problems: list[str] = []
    edits = manifests(from_source(chosen.file, problems), problems, asked.objects, again=False)
    if problems:
        raise UserError(problems[0])
    before = _settings(chosen, source.running)
    after = dataclasses.replace(
        before.changed_to(chosen.version_after),
        gates=chosen.gates_after or before.gates,
        config=chosen.config_after or before.config,
    )
    if not edits.objects and not edits.left_out and after == before:
        raise UserError(f"nothing is changed: there are no objects in {chosen.file}")
    setup = None if after == before else after.setup()
    return asked.change(asked.with_changes(asked.objects.with_objects(edits.objects), setup), edits.left_out)


def nodes(asked: Planner, chosen: argparse.Namespace) -> Purchase:
    """Answer ``plan nodes``."""
    # Other questions need no GPU models, which take a while to import.
    from dra_worlds.catalog import catalog

    types = catalog(chosen.catalog)
    pods = wanted(chosen.file, asked.objects, chosen.namespace) if chosen.file else Wanted(())
    return asked.nodes(types, pods, chosen.count, seconds=chosen.time)


def pack(asked: Planner, chosen: argparse.Namespace) -> Packing:
    """Answer ``plan pack``."""
    pods = wanted(chosen.file, asked.objects, chosen.namespace) if chosen.file else None
    return asked.pack(pods, chosen.count, seconds=chosen.time)


def replay(asked: Planner, source: Source, chosen: argparse.Namespace) -> Replay:
    """Answer ``plan replay``."""
    from dra_worlds.edits import Changed, changed

    objects = asked.objects
    shapes = wanted(chosen.shapes, objects) if chosen.shapes else None
    times, problems = timeline(chosen.file, objects, shapes)
    start = Changed("as it is", objects, _settings(chosen, source.running))
    changes = list(changed(chosen.changes, start)) if chosen.changes else []
    variants = [(each.name, asked.with_changes(each.objects, each.settings.setup())) for each in changes]
    left_out = [*(shapes.left_out if shapes is not None else ()), *chain(*(c.left_out for c in changes))]
    answer = asked.replay(times, variants, starved_after=chosen.starved_after, left_out=left_out)
    return msgspec.structs.replace(answer, uncertain=(*answer.uncertain, *problems))


def _settings(chosen: argparse.Namespace, cluster: Running) -> Settings:
    """Return how the options say that the scheduler runs."""
    return Settings(chosen.feature_gates, chosen.kubernetes_version, chosen.config, chosen.seed, cluster)
