"""``plan change``: the nodes and devices that the pods would get after an edit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dra_shared.api.meta import Struct
from dra_shared.jsontypes import JsonObject
from dra_shared.plurals import count
from dra_shared.version import VERSIONS

from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.questions.texts import MOST_PODS, list_names, name_objects, uncertainty_lines
from dra_scheduler.plan.tables import Table

if TYPE_CHECKING:
    from dra_scheduler.plan.change import Comparison
    from dra_scheduler.plan.fit import PodPlace
    from dra_scheduler.plan.objects import Objects


class ChangeRequest(Struct):
    """An edit: ``objects`` are added or replaced, and nodes to ``remove`` are removed with their pods.

    The scheduler then runs with ``feature_gates`` (the syntax of ``--feature-gates``),
    ``kubernetes_version`` and ``config``, a KubeSchedulerConfiguration.
    """

    objects: tuple[JsonObject, ...] = ()
    remove: tuple[str, ...] = ()
    feature_gates: str = ""
    kubernetes_version: str = ""
    config: JsonObject | None = None
    name: str = ""


def _ask(door: Door, asked: ChangeRequest) -> Comparison:
    after, left_out = door.apply_change(asked)
    return door.planner.change(after, left_out)


def _add_words(words: argparse.ArgumentParser) -> None:
    words.add_argument("file", help="the changed objects: a file, a folder, or - for standard input")
    words.add_argument(
        "--config-after", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration after the edit"
    )
    words.add_argument(
        "--version-after",
        default="",
        choices=[str(version) for version in VERSIONS],
        help="the version of Kubernetes after the edit",
    )
    words.add_argument("--gates-after", default="", help="feature gates after the edit: A=true,B=false")


def _read_words(chosen: argparse.Namespace, objects: Objects) -> ChangeRequest:
    return ChangeRequest(
        objects=chosen.file,
        feature_gates=chosen.gates_after,
        kubernetes_version=chosen.version_after,
        config=chosen.config_after,
    )


def _text(answer: Comparison) -> str:
    lines = [f"of {count(answer.pods, 'pod')}, {answer.before} are placed before and {answer.after} after"]
    shown = answer.changed[:MOST_PODS]
    lines += [f"  {each.pod}: {_place(each.before)} -> {_place(each.after)}" for each in shown]
    if len(answer.changed) > MOST_PODS:
        lines.append(f"  and {len(answer.changed) - MOST_PODS} more; -o json has all")
    return "\n".join([*lines, *uncertainty_lines(answer.uncertain)])


def _place(place: PodPlace) -> str:
    if not place.node:
        return f"nowhere ({place.message})"
    return f"{place.node} ({', '.join(place.devices)})" if place.devices else place.node


def _draw(answer: Comparison, holders: Holders) -> None:
    # Remove all old holders before adding new ones, because a device may pass from one pod to another.
    for change in answer.changed:
        for device in change.before.devices:
            holders.devices.pop(device, None)
    for change in answer.changed:
        holders.devices.update(dict.fromkeys(change.after.devices, change.pod))


def _phrase(asked: ChangeRequest) -> str:
    edits = [
        *([name_objects(asked.objects)] if asked.objects else ()),
        *([f"feature gates {asked.feature_gates}"] if asked.feature_gates else ()),
        *([f"Kubernetes {asked.kubernetes_version}"] if asked.kubernetes_version else ()),
        *(["another scheduler configuration"] if asked.config is not None else ()),
        *([f"no more {', '.join(asked.remove)}"] if asked.remove else ()),
    ]
    return f"What would the same pods get with {list_names(edits, 5)}?"


def _state_result(answer: Comparison) -> str:
    if not answer.changed:
        return (
            f"Nothing changes: {answer.after} of {count(answer.pods, 'pod')} have a place before and after."
        )
    others = count(len(answer.changed), "pod")
    placed = f"{answer.after} of {count(answer.pods, 'pod')} have a place, {answer.before} before"
    return f"{placed}; {others} {'gets' if len(answer.changed) == 1 else 'get'} another place or reason."


def _tables(answer: Comparison) -> Sequence[Table]:
    head = ("pod", "node before", "devices before", "node after", "devices after", "message")
    rows = [
        (
            each.pod,
            each.before.node,
            each.before.devices,
            each.after.node,
            each.after.devices,
            each.after.message,
        )
        for each in answer.changed
    ]
    return [Table("What changes", head, rows)]


QUESTION = Question(
    "change",
    "what the same pods would get after an edit",
    ChangeRequest,
    _ask,
    _text,
    _add_words,
    _read_words,
    _draw,
    phrase=_phrase,
    headline=_state_result,
    tables=_tables,
)
