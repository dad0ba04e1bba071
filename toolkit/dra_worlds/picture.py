"""A page of HTML that shows the devices of each node before and after a change."""

from collections.abc import Mapping
from html import escape
from typing import Any

from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.questions.question import Holders, Question
from dra_shared.api.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES

_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .3em .8em; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #ddd }
.d { display: inline-block; width: .9em; height: .9em; margin: 1px; border: 1px solid #999; background: #fff }
.used { background: #8aa4c8 } .new { background: #5aa469 } .left { background: #e8b26a }
pre { background: #f5f5f5; padding: 1em; overflow-x: auto }
"""

# Devices, as driver/pool/device, and the claims that have them.
_Holders = Mapping[str, str]


def page(question: Question[Any, Any], objects: Objects, answer: Any) -> str:
    """Return an HTML page: a row for each node, with its devices before and after, and the answer as text."""
    before = _holders(objects)
    after = Holders(dict(before))
    question.draw(answer, after)
    fleet = _fleet(objects, after).items()
    rows = "".join(_row(node, devices, before, after.devices) for node, devices in fleet)
    title = f"dralab plan {question.name}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        '<p><span class="d"></span> free <span class="d used"></span> used <span class="d new"></span> newly used '
        '<span class="d left"></span> no longer used</p>'
        f"<table><thead><tr><th>node</th><th>before</th><th>after</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<pre>{escape(question.text(answer))}</pre></body></html>"
    )


def _fleet(objects: Objects, after: Holders) -> dict[str, list[str]]:
    """Return the devices of each node. Devices of several nodes come last. Of bought nodes, only used ones appear."""
    found: dict[str, list[str]] = {name: [] for name in objects.of(NODES)}
    for piece in objects.of(RESOURCE_SLICES).values():
        node = piece.spec.node_name or "several nodes"
        prefix = f"{piece.spec.driver}/{piece.spec.pool.name}"
        found.setdefault(node, []).extend(f"{prefix}/{device.name}" for device in piece.spec.devices)
    for node, devices in after.nodes.items():
        if node not in objects.of(NODES):
            found.setdefault(node, []).extend(devices)
    return found


def _holders(objects: Objects) -> dict[str, str]:
    return {
        f"{result.driver}/{result.pool}/{result.device}": claim.key
        for claim in objects.of(RESOURCE_CLAIMS).values()
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    }


def _row(node: str, devices: list[str], before: _Holders, after: _Holders) -> str:
    then = "".join(_box(device, "used" if device in before else "", before) for device in devices)
    now = "".join(_box(device, _kind(device, before, after), after) for device in devices)
    return f"<tr><td>{escape(node)}</td><td>{then}</td><td>{now}</td></tr>"


def _kind(device: str, before: _Holders, after: _Holders) -> str:
    if device in after:
        return "used" if before.get(device) == after[device] else "new"
    return "left" if device in before else ""


def _box(device: str, kind: str, holders: _Holders) -> str:
    holder = f": {holders[device]}" if device in holders else ""
    return f'<span class="d {kind}" title="{escape(device + holder)}"></span>'
