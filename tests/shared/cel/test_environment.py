"""Test that the environment has every topic of the library."""

import importlib
import pkgutil

import pytest
from dra_shared.cel import library
from dra_shared.cel.declarations import FAILED, Estimate, Node, function, overload
from dra_shared.cel.environment import TOPICS, functions, join_topics
from dra_shared.cel.types import STRING
from dra_shared.version import V1_35, V1_36, V1_37, Version

#: The compiler generates the code of these functions.
_COMPILED = {
    "_?_:_", "_&&_", "_||_", "@not_strictly_false", "_[_]", "_[?_]", "_?._", "or", "orValue",
}  # fmt: skip


def _topics() -> dict[str, object]:
    names = [module.name for module in pkgutil.iter_modules(library.__path__)]
    modules = [importlib.import_module(f"{library.__name__}.{name}") for name in names]
    return {module.__name__: module.FUNCTIONS for module in modules if hasattr(module, "FUNCTIONS")}


def test_every_library_topic_is_in_the_cel_environment() -> None:
    optional = {f"{library.__name__}.jsonpatch"}
    listed = {name for name, topic in _topics().items() if any(topic is known for known in TOPICS)}
    assert listed == _topics().keys() - optional
    assert len(listed) == len(TOPICS)


def test_optional_library_topics_are_included_only_on_request() -> None:
    assert "includes" not in functions()
    versions = (V1_35, V1_36, V1_37)
    assert [functions(v, includes=True).keys() - functions(v).keys() for v in versions] == [
        set(),
        {"includes"},
        {"includes"},
    ]
    assert "jsonpatch.escapeKey" not in functions(V1_37, includes=True)
    assert "jsonpatch.escapeKey" in functions(patches=True)


@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_every_declared_function_overload_is_implemented(version: Version) -> None:
    declared = functions(version, includes=True, patches=True)
    without = {
        name
        for name, known in declared.items()
        if known.run is None and any(item.run is None for item in known.overloads)
    }
    assert without == _COMPILED


def test_a_new_function_needs_one_declaration() -> None:
    declared = function(
        "shout",
        overload(
            ".string_shout(string) string",
            str.upper,
            cost=lambda args, result: len(args[0]),
            estimate=lambda target, args: Estimate((0, 7)),
        ),
    )
    known = join_topics([*TOPICS, (declared,)])["shout"]
    assert known.overloads[0].result == STRING
    assert known.call_cost("string_shout")(["four"], FAILED) == 4
    assert known.estimate_call("string_shout", Node(STRING, None, (), None), []).cost == (0, 7)
    # Without a cost or estimate of its own a call costs one.
    assert known.call_cost("")(["four"], FAILED) == 1
    assert known.estimate_call("", None, []).cost == (1, 1)


def test_overloads_of_a_function_in_several_topics_are_in_the_order_of_the_topics() -> None:
    ids = [item.id for item in functions()["isLessThan"].overloads]
    assert ids == ["quantity_is_less_than", "semver_is_less_than"]


def test_topics_with_contradicting_declarations_of_a_function_are_rejected() -> None:
    topics = [(function("f", run=str.upper),), (function("f", run=str.lower),)]
    with pytest.raises(ValueError, match="two topics declare f differently"):
        join_topics(topics)
