"""Writing what takes long to find out: while it is found out, the object may change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from dra_apiserver.storage.records import Record, Resource
from dra_apiserver.storage.store import ChangeFunction, Put, Remove, Store

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
Confirm = Callable[[Record | None, dict[str, Any]], None]


class _Changed(Exception):
    """The object is another one than that which was looked at."""


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
    """As the store's `write`, for a change that `run` runs while others write: it runs again where they did.

    `confirm` gets the object as it is and as it is to be, and raises where what else the change looked at changed.

    Raises:
        StatusError: 500, the database refused.
        Exception: whatever `change`, `run` or `confirm` raised.
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
        # Where servers share a database, what is on its way has a revision that it may not keep, and who is asked again
        # may find that what it counted has changed.
        if current is not seen or asked:
            raise _Changed
        asked = True
        if confirm is not None and isinstance(outcome, Put):
            confirm(current, outcome.obj)
        return outcome

    return change
