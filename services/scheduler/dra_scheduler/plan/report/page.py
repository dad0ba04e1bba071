"""The page of a report: question, answer, inputs, cost, utilisation, stranded devices, the answer's lists, picture."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from dra_shared.api.resources import NODES, PODS
from dra_shared.plurals import count
from dra_shared.version import release

from dra_scheduler.explain.text import names_text
from dra_scheduler.plan.charts import Bar, Part, draw_bars
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.packing.answer import Packing
from dra_scheduler.plan.planner import Planner
from dra_scheduler.plan.questions.question import Door, Holders, Question
from dra_scheduler.plan.report.fleet import Fleet, Unit, holders
from dra_scheduler.plan.tables import Table

_STYLE = Path(__file__).with_name("style.css")
_MOST_ROWS = 60
_MOST_NODES = 400
# Longer texts may be broken between lines.
_SHORT = 48
# To find stranded devices, the world is filled once for each shape of pods, so the number of shapes is limited.
_SECONDS_FOR_STRANDED = 10.0
_KINDS = {"used": "in use", "new": "newly used", "left": "no longer used", "free": "free"}


@dataclass(frozen=True)
class Inputs:
    """Facts about an answer that the planner does not know: the origin of the world, and the time of the question.

    ``more`` are further inputs by name, such as the catalogue.
    """

    source: str
    asked_at: datetime | None = None
    more: Mapping[str, str] = field(default_factory=dict)


def write_report(question: Question[Any, Any], asked: Any, answer: Any, door: Door, inputs: Inputs) -> str:
    """Return the page for an answer to a question whose request was read through ``door``."""
    objects = question.bring(door, asked, answer)
    after = Holders(holders(door.planner.objects))
    question.draw(answer, after)
    fleet = Fleet(objects, after.devices)
    title = question.phrase(asked) if question.phrase is not None else f"{question.about}?".capitalize()
    headline = question.headline(answer) if question.headline is not None else _first_line(question, answer)
    # The answer of a replay or a sweep is a course of time: its world is empty at the beginning and the end.
    has_places = question.timeless and bool(objects.of(NODES))
    sections = [
        _header(title, headline, answer),
        _section("Inputs", _inputs(door.planner, inputs)),
        *(_sections_about_nodes(door, asked, answer, fleet) if has_places else ()),
        *(_section(name, content) for name, content in question.sections(answer)),
        *(_section(each.caption, _table(each)) for each in question.tables(answer) if each.rows),
        f"<details><summary>The answer as text</summary><pre>{escape(question.text(answer))}</pre></details>",
        _section("Picture", _picture(fleet)) if has_places else "",
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE.read_text()}</style></head><body><main>{''.join(sections)}</main></body></html>\n"
    )


def _sections_about_nodes(door: Door, asked: Any, answer: Any, fleet: Fleet) -> Iterator[str]:
    yield _section("Cost", _cost(door.planner.objects, fleet))
    yield _section("Utilisation by model", _utilisation(fleet))
    yield _section("Stranded devices", _show_stranded(door, asked, answer))


def _first_line(question: Question[Any, Any], answer: Any) -> str:
    return question.text(answer).partition("\n")[0]


def _section(name: str, content: str) -> str:
    return f"<section><h2>{escape(name)}</h2>{content}</section>" if content else ""


def _header(title: str, headline: str, answer: Any) -> str:
    kind = "good" if getattr(answer, "good", True) else "bad"
    reasons = list(getattr(answer, "uncertain", ()))
    if not getattr(answer, "complete", True):
        reasons.insert(0, "the search was interrupted: this is as far as it came")
    found = f'<h1>{escape(title)}</h1><p class="answer {kind}">{escape(headline)}</p>'
    if reasons:
        lines = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
        found += f'<div class="caution">What makes the answer uncertain:<ul>{lines}</ul></div>'
    return found


def _inputs(planner: Planner, inputs: Inputs) -> str:
    objects, setup = planner.objects, planner.setup
    pods = objects.of(PODS).values()
    waiting = sum(not pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed") for pod in pods)
    gates = setup.gates_for(objects)
    defaults = {name: gate.default for name, gate in release(gates.version).gates.items()}
    changed = [
        f"{name}={str(not on).lower()}" for name, on in sorted(defaults.items()) if gates.enabled(name) != on
    ]
    found = {
        "World": inputs.source,
        "Newest object": _newest(objects),
        "Asked": inputs.asked_at.strftime("%Y-%m-%d %H:%M UTC") if inputs.asked_at is not None else "",
        "Contents": (
            f"{count(len(objects.of(NODES)), 'node')}, {count(len(pods), 'pod')}, {waiting} waiting"
            if len(objects)
            else ""
        ),
        "Scheduler": f"Kubernetes {gates.version}, seed {setup.seed}",
        "Feature gates": ", ".join(changed) or "the defaults of that version",
        **inputs.more,
    }
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in found.items() if text)
    return f"<dl>{rows}</dl>"


def _newest(objects: Objects) -> str:
    times = [obj.metadata.creation_timestamp for _, each in objects for obj in each.values()]
    return max((str(time) for time in times if time), default="")


def _cost(objects: Objects, fleet: Fleet) -> str:
    """Return the price of the world's nodes, and the part of it that pays for devices without a holder."""
    prices = fleet.prices()
    if not prices:
        return (
            '<p class="dim">The nodes have no prices. Give the pools of a fleet a <code>price</code>, '
            "or nodes the label <code>dralab.dev/price</code>.</p>"
        )
    rows: list[tuple[str, int, float, float]] = []
    by_model: dict[str, list[str]] = {}
    nodes = fleet.nodes()
    for name in prices:
        models = dict.fromkeys(unit.model for unit in nodes.get(name, ()))
        by_model.setdefault(" + ".join(models) or "no devices", []).append(name)
    for model, names in sorted(by_model.items()):
        price = sum(prices[name] for name in names)
        idle = sum(prices[name] * _idle(nodes.get(name, [])) for name in names)
        rows.append((model, len(names), round(price, 4), round(idle, 4)))
    total, idle = sum(row[2] for row in rows), sum(row[3] for row in rows)
    rows.append(("total", len(prices), round(total, 4), round(idle, 4)))
    new = sum(price for name, price in prices.items() if name not in objects.of(NODES))
    headline = f"All nodes cost {total:g}" + (f", of which {new:g} for new nodes" if new else "")
    headline += f". {idle:g} of it pays for devices that nothing uses once the answer is carried out."
    head = ("nodes with", "nodes", "cost", "for unused devices")
    return f"<p>{escape(headline)}</p>{_table(Table('Cost', head, rows))}"


def _idle(units: Iterable[Unit]) -> float:
    parts = [1 - unit.count("used", "new") for unit in units]
    return sum(parts) / len(parts) if parts else 0.0


def _utilisation(fleet: Fleet) -> str:
    bars = []
    for model, units in fleet.models().items():
        amounts = {kind: sum(unit.count(kind) for unit in units) for kind in ("used", "new", "left")}
        amounts["free"] = max(0.0, len(units) - sum(amounts.values()))
        busy = amounts["used"] + amounts["new"]
        parts = [Part(kind, amounts[kind], f"{amounts[kind]:g} {_KINDS[kind]}") for kind in _KINDS]
        note = f"{busy / len(units):.0%} · {busy:g} of {len(units)}"
        bars.append(Bar(model, [Part(p.kind, p.value / len(units), p.title) for p in parts], note))
    if not bars:
        return '<p class="dim">There are no devices.</p>'
    return draw_bars("Utilisation by model", bars, 1.0) + _legend()


def _legend() -> str:
    keys = "".join(
        f'<span class="key"><span class="unit swatch"><span class="d {kind}"></span></span>{text}</span>'
        for kind, text in _KINDS.items()
    )
    return f'<p class="legend">{keys}</p>'


def _show_stranded(door: Door, asked: Any, answer: Any) -> str:
    """Return the free devices that no pod can use: those in the answer, or else those in the question's world."""
    packing = (
        answer
        if isinstance(answer, Packing)
        else door.planner.strand(_read_pods(door, asked), seconds=_SECONDS_FOR_STRANDED)
    )
    if not packing.complete:
        return '<p class="dim">Too many to find them for a report: ask <code>dralab plan pack</code>.</p>'
    if not packing.shapes:
        return '<p class="dim">There are no pods with claims, so no device can be stranded.</p>'
    free = sum(packing.free.values())
    bars = [
        Bar(
            shape,
            [
                Part("stranded", packing.stranded.get(shape, 0), "stranded"),
                Part("free", number - packing.stranded.get(shape, 0), "free and usable"),
            ],
            f"{packing.stranded.get(shape, 0)} of {number} free",
        )
        for shape, number in packing.free.items()
    ]
    shapes = ", ".join(packing.shapes)
    headline = (
        f"{sum(packing.stranded.values())} of {count(free, 'free device')} are stranded before the answer is carried "
        f"out: whichever pods fill the nodes ({shapes}), they stay free."
    )
    return f"<p>{escape(headline)}</p>{draw_bars('Stranded devices', bars) if bars else ''}"


def _read_pods(door: Door, asked: Any) -> Wanted:
    """Return the pods of a request that has pods. Other requests have edits, or only names."""
    if "count" not in type(asked).__struct_fields__ or not asked.objects:
        return Wanted(())
    return door.pods(asked.objects, asked.count)


def _table(table: Table) -> str:
    # Omit columns that are empty in every row, to save space on paper.
    columns = [n for n in range(len(table.head)) if any(row[n] not in ("", ()) for row in table.rows)]
    numbers = {n for n in columns if all(isinstance(row[n], int | float) for row in table.rows)}
    head = "".join(
        f"<th{' class=number' if n in numbers else ''}>{escape(table.head[n])}</th>" for n in columns
    )
    rows = "".join(_row([row[n] for n in columns]) for row in table.rows[:_MOST_ROWS])
    if len(table.rows) > _MOST_ROWS:
        more = len(table.rows) - _MOST_ROWS
        rows += f'<tr><td colspan="{len(columns)}" class="dim">and {more} more: -o csv has all</td></tr>'
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(values: Iterable[object]) -> str:
    return f"<tr>{''.join(map(_cell, values))}</tr>"


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{value:g}</td>'
    text = _devices(value) if isinstance(value, tuple) else str(value)
    kind = ' class="short"' if len(text) <= _SHORT else ""
    return f"<td{kind}>{escape(text)}</td>"


def _devices(devices: tuple[str, ...]) -> str:
    """Return devices by driver and pool, with consecutive numbers as ranges."""
    pools: dict[str, list[str]] = {}
    for device in devices:
        pool, _, name = device.rpartition("/")
        pools.setdefault(pool, []).append(name)
    return "; ".join(f"{pool}/{names_text(names)}" for pool, names in pools.items())


def _picture(fleet: Fleet) -> str:
    nodes = {name: units for name, units in fleet.nodes().items() if units}
    if not nodes:
        return ""
    shown = sorted(nodes, key=lambda name: not _changes(nodes[name]))[:_MOST_NODES]
    cards = "".join(_card(name, nodes[name]) for name in nodes if name in set(shown))
    more = len(nodes) - len(shown)
    note = f'<p class="dim">and {count(more, "node")} without changes</p>' if more else ""
    return f'{_legend()}<div class="nodes">{cards}</div>{note}'


def _changes(units: Iterable[Unit]) -> bool:
    return any(slot.kind in ("new", "left") for unit in units for slot in unit.slots)


def _card(name: str, units: list[Unit]) -> str:
    models = ", ".join(
        f"{sum(unit.model == model for unit in units)} x {model}"
        for model in dict.fromkeys(unit.model for unit in units)
    )
    tiles = "".join(_tile(unit) for unit in units)
    return f'<div class="node"><h3>{escape(name)}</h3><p>{escape(models)}</p><div class="units">{tiles}</div></div>'


def _tile(unit: Unit) -> str:
    parts = "".join(_slots(unit))
    return f'<div class="unit">{parts}</div>'


def _slots(unit: Unit) -> Iterator[str]:
    for slot in unit.slots:
        before = f", before: {slot.before}" if slot.before and slot.before != slot.after else ""
        title = f"{slot.device}: {slot.after or 'free'}{before}"
        yield f'<span class="d {slot.kind}" style="width:{slot.part:.1%}" title="{escape(title)}"></span>'
