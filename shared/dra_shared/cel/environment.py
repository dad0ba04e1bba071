"""Functions and type names of the CEL environment: Kubernetes' base environment with all its libraries, and DRA's.

Mirrors k8s.io/apiserver/pkg/cel/environment/base.go and k8s.io/dynamic-resource-allocation/cel/compile.go. A
new topic of ``library`` is one entry in ``TOPICS``.
"""

import functools
from collections.abc import Iterable
from typing import Final, TypeVar

from dra_shared.cel import types as t
from dra_shared.cel.declarations import Function, Functions
from dra_shared.cel.library import (
    authorization,
    cidr,
    comparisons,
    containers,
    conversions,
    formats,
    ip,
    jsonpatch,
    lists,
    maps,
    operators,
    optionals,
    quantity,
    regex,
    semver,
    sets,
    strings,
    times,
    url,
)
from dra_shared.cel.library import includes as includes_library
from dra_shared.cel.library.scaled import with_scaled_estimates
from dra_shared.cel.types import Kind, Type
from dra_shared.version import DEFAULT, V1_34, V1_38, Version

_Part = TypeVar("_Part")

#: The functions that all environments have in the same form. Where topics share a function, its overloads stand in the
#: order of the topics.
TOPICS: Final = (
    operators.FUNCTIONS,
    comparisons.FUNCTIONS,
    containers.FUNCTIONS,
    conversions.FUNCTIONS,
    times.FUNCTIONS,
    optionals.FUNCTIONS,
    lists.FUNCTIONS,
    sets.FUNCTIONS,
    maps.FUNCTIONS,
    strings.FUNCTIONS,
    regex.FUNCTIONS,
    quantity.FUNCTIONS,
    semver.FUNCTIONS,
    url.FUNCTIONS,
    ip.FUNCTIONS,
    cidr.FUNCTIONS,
    formats.FUNCTIONS,
    # Only for the text of errors in selectors: DRA provides no authorizer.
    authorization.FUNCTIONS,
)


@functools.cache
def functions(
    kubernetes: Version = DEFAULT, *, stored: bool = True, includes: bool = False, patches: bool = False
) -> Functions:
    """Return every function of the environment in a version of Kubernetes.

    Set ``stored`` for an expression of an object that is stored already. A new expression may only use
    functions that the previous version has too, because a cluster may be rolled back to that version.
    ``includes`` adds DRA's variant of the function ``includes``, and ``patches`` adds the functions of mutating
    policies.
    """
    topics = [
        *TOPICS,
        times.duration_of(kubernetes),
        strings.affixes_of(kubernetes),
        regex.matches_of(kubernetes),
    ]
    if stored:
        topics.append(cidr.extensions_of(kubernetes))
    # Upstream's base environment has cel-go's lists since 1.34.
    if stored or kubernetes > V1_34:
        topics.append(lists.extensions_of(kubernetes))
    if includes:
        topics.append(includes_library.functions_of(kubernetes))
    if patches:
        topics.append(jsonpatch.FUNCTIONS)
    joined = join_topics(topics)
    return joined if kubernetes < V1_38 else with_scaled_estimates(joined)


def join_topics(topics: Iterable[tuple[Function, ...]]) -> Functions:
    """Return the functions of all topics by name.

    Raises:
        ValueError: topics share a function but give it different code, cost or estimate.
    """
    declared: Functions = {}
    for topic in topics:
        for function in topic:
            known = declared.get(function.name)
            declared[function.name] = function if known is None else _join(known, function)
    return declared


def _join(first: Function, second: Function) -> Function:
    """Return a function with the overloads of two topics."""
    return Function(
        first.name,
        first.overloads + second.overloads,
        _share(first.name, first.run, second.run),
        _share(first.name, first.cost, second.cost),
        _share(first.name, first.estimate, second.estimate),
        first.checks_arguments or second.checks_arguments,
    )


def _share(name: str, first: _Part | None, second: _Part | None) -> _Part | None:
    if first is not None and second is not None and first is not second:
        raise ValueError(f"two topics declare {name} differently")
    return second if first is None else first


#: The types that can be named in an expression.
TYPE_IDENTS: Final[dict[str, Type]] = {
    "bool": t.BOOL,
    "bytes": t.BYTES,
    "double": t.DOUBLE,
    "google.protobuf.Duration": t.DURATION,
    "int": t.INT,
    "list": t.list_of(t.param("A")),
    "map": t.map_of(t.param("A"), t.param("B")),
    "null_type": t.NULL,
    "string": t.STRING,
    "google.protobuf.Timestamp": t.TIMESTAMP,
    "type": t.TYPE,
    "uint": t.UINT,
    "optional_type": Type(Kind.OPAQUE, "optional_type"),
    "net.IP": t.IP,
    "net.CIDR": t.CIDR,
}
