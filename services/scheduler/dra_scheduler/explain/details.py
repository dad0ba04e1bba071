"""Convert the allocator's reasons for rejecting devices to fields of the report: one function for each reason."""

from collections.abc import Sequence
from functools import singledispatch

from dra_scheduler.allocator.amounts import display
from dra_scheduler.allocator.reasons import (
    CapacityShort,
    ConstraintUnmet,
    CounterShort,
    InUse,
    Picked,
    Reason,
    SelectorRejected,
    Tainted,
)
from dra_scheduler.explain.report import ReasonReport


def detail(reason: Reason, claims: Sequence[str], pods: Sequence[str]) -> ReasonReport:
    """Convert a reason.

    ``claims`` are the claims in the reason, as ``namespace/name``, ``pods`` the pods that use them.
    """
    kind = type(reason).__name__
    return _detail(reason, kind[0].lower() + kind[1:], tuple(claims), tuple(pods))


@singledispatch
def _detail(reason: Reason, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]) -> ReasonReport:
    return ReasonReport(kind=kind, gist=str(reason))


@_detail.register
def _selector(
    reason: SelectorRejected, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]
) -> ReasonReport:
    return ReasonReport(
        kind=kind,
        gist=str(reason).removesuffix(f" (saw {reason.values_text})"),
        values=reason.values_text,
        device_class=reason.of_class,
        index=reason.index,
        expression=reason.expression,
        error=reason.error,
        saw=dict(reason.attributes),
        lacks=reason.lacks,
    )


@_detail.register(InUse)
@_detail.register(Picked)
def _holder(
    reason: InUse | Picked, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]
) -> ReasonReport:
    gist = "in use" if isinstance(reason, InUse) else "already picked"
    by = ", ".join(f"claim {claim}" for claim in claims) + (f" ({', '.join(pods)})" if pods else "")
    return ReasonReport(kind=kind, gist=gist, values=f"by {by}", claims=claims, pods=pods)


@_detail.register
def _taint(reason: Tainted, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]) -> ReasonReport:
    return ReasonReport(kind=kind, gist=str(reason), taint=reason.taint)


@_detail.register
def _constraint(
    reason: ConstraintUnmet, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]
) -> ReasonReport:
    if reason.value is None:
        return ReasonReport(kind=kind, gist=str(reason), index=reason.index, attribute=reason.attribute)
    value, others = reason.texts
    return ReasonReport(
        kind=kind,
        gist=f"constraint #{reason.index}: {reason.kind} {reason.attribute}",
        values=f"is {value}, others have {', '.join(others)}",
        index=reason.index,
        attribute=reason.attribute,
        value=value,
        others=others,
    )


@_detail.register
def _counter(reason: CounterShort, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]) -> ReasonReport:
    return ReasonReport(
        kind=kind,
        gist=f"counter {'/'.join(reason.counter)}",
        values=f"needs {display(reason.needed)}, lacks {display(reason.needed - reason.left)}",
        counter="/".join(reason.counter),
        needed=display(reason.needed),
        left=display(reason.left),
        missing=display(reason.needed - reason.left),
    )


@_detail.register
def _capacity(
    reason: CapacityShort, kind: str, claims: tuple[str, ...], pods: tuple[str, ...]
) -> ReasonReport:
    short = reason.shortage
    if short.problem != "capacity":
        needed = display(short.needed) if short.problem == "policy" else ""
        return ReasonReport(kind=kind, gist=str(reason), capacity=short.name, needed=needed)
    return ReasonReport(
        kind=kind,
        gist=f"capacity {short.name}",
        values=f"needs {display(short.needed)}, lacks {display(short.needed - short.left)}"
        + "".join(f", claim {claim} has some" for claim in claims),
        capacity=short.name,
        needed=display(short.needed),
        left=display(short.left),
        missing=display(short.needed - short.left),
        claims=claims,
        pods=pods,
    )
