"""Write changes that take long to compute, during which the object may change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.store import ChangeFunction, Put, Remove, Store

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
Confirm = Callable[[Record | None, dict[str, Any]], None]


class _Changed(Exception):
    """The object is not the one that the change was computed from."""


async def guaranteed_update(
    store: Store,
    resource: Resource,
    key: str,
    change: ChangeFunction,
    run: Run,
    *,
    dry_run: bool = False,
    confirm: Confirm | None = None,
) -> Record | None:
    """Like the store's `write`, but run the change through `run` while others write, and again if the object changed.

    `confirm` gets the current object and the new one, and raises if other objects that the change used have
    changed.

    Raises:
        StatusError: 500, the database failed. Exception: whatever `change`, `run` or `confirm` raised.
    """
    while True:
        seen = store.newest(resource, key)
        outcome = await run(partial(change, seen))
        try:
            return await store.write(resource, key, _if_still(seen, outcome, confirm), dry_run)
        except _Changed:
            continue


def _if_still(seen: Record | None, outcome: Put | Remove | None, confirm: Confirm | None) -> ChangeFunction:
    asked = False

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal asked
        # If servers share a database, a pending write may get another revision than its provisional one. When
        # `change` is called again, objects that it counted may have changed.
        if current is not seen or asked:
            raise _Changed
        asked = True
        if confirm is not None and isinstance(outcome, Put):
            confirm(current, outcome.obj)
        return outcome

    return change
