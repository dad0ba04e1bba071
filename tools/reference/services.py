"""The flags of the services, from their parsers, as docs/configuration.md has them."""

import argparse
import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial

from dra_shared.service import Options

from tools.reference.arguments import flag_table

SERVICES = ("apiserver", "scheduler", "controller", "node-agent")
_CLIENTS = SERVICES[1:]


def tables() -> Mapping[str, Callable[[], str]]:
    """Return the tables by name: flags of all services, of the API server's clients, and of each service."""
    own = {f"flags of dralab-{service}": partial(_own, service) for service in SERVICES}
    return {"flags of all services": _of_all, "flags of clients": _of_clients, **own}


def _of_all() -> str:
    common = _common_keys(SERVICES)
    return flag_table(one for one in _flags("scheduler") if _key(one) in common)


def _of_clients() -> str:
    common = _common_keys(_CLIENTS) - _common_keys(SERVICES)
    return flag_table(one for one in _flags("scheduler") if _key(one) in common)


def _own(service: str) -> str:
    common = _common_keys(SERVICES) | (_common_keys(_CLIENTS) if service in _CLIENTS else frozenset())
    return flag_table(one for one in _flags(service) if _key(one) not in common)


def _common_keys(services: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return the flags that all these services have with the same meaning."""
    return frozenset.intersection(*(frozenset(map(_key, _flags(service))) for service in services))


def _key(action: argparse.Action) -> tuple[str, str]:
    return action.option_strings[0], action.help or ""


@cache
def _flags(service: str) -> tuple[argparse.Action, ...]:
    parser: Options = importlib.import_module(f"dra_{service.replace('-', '_')}.main").options()
    return tuple(one for one in parser._actions if one.option_strings and one.dest != "help")
