"""Test which requests a rule allows and which rules cover other rules."""

from typing import Any

from dra_apiserver.authorization import Attributes
from dra_apiserver.authorization.rules import allows, find_uncovered, format_rule
from dra_apiserver.user import UserInfo

from tests.support.cases import each_case

_USER = UserInfo("bob")


def _resource(resource: str, verb: str = "get", group: str = "", name: str = "x") -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(_USER, verb, group, plural, subresource, "default", name)


def _rule(*resources: str, verbs: str = "get", groups: str = "", names: str = "") -> dict[str, Any]:
    rule = {"verbs": verbs.split(","), "apiGroups": groups.split(","), "resources": list(resources)}
    return rule | ({"resourceNames": names.split(",")} if names else {})


def _paths(*urls: str, verbs: str = "get") -> dict[str, Any]:
    return {"verbs": verbs.split(","), "nonResourceURLs": list(urls)}


@each_case(
    ("rule", "wanted", "allowed"),
    [
        (_rule("pods"), _resource("pods"), True),
        (_rule("pods"), _resource("pods", verb="list"), False),
        (_rule("pods", verbs="*"), _resource("pods", verb="list"), True),
        (_rule("pods"), _resource("pods", group="apps"), False),
        (_rule("pods", groups="*"), _resource("pods", group="apps"), True),
        (_rule("pods"), _resource("pods/log"), False),
        (_rule("pods/log"), _resource("pods/log"), True),
        (_rule("pods/log"), _resource("pods"), False),
        (_rule("*/log"), _resource("pods/log"), True),
        (_rule("*/log"), _resource("pods/status"), False),
        (_rule("*/"), _resource("pods"), False),
        (_rule("*"), _resource("pods/log"), True),
        (_rule("pods", names="x,y"), _resource("pods"), True),
        (_rule("pods", names="y"), _resource("pods"), False),
        (_rule("pods", names="y"), _resource("pods", name=""), False),
        (_rule("pods"), Attributes(_USER, "get", path="/metrics"), False),
        (_paths("/metrics"), Attributes(_USER, "get", path="/metrics"), True),
        (_paths("/metrics"), Attributes(_USER, "get", path="/metrics/x"), False),
        (_paths("/metrics*"), Attributes(_USER, "get", path="/metrics/x"), True),
        (_paths("*", verbs="post"), Attributes(_USER, "get", path="/"), False),
        (_paths("*"), _resource("pods"), False),
    ],
)
def test_a_rule_allows_matching_requests(rule: dict[str, Any], wanted: Attributes, allowed: bool) -> None:
    assert allows(rule, wanted) is allowed


@each_case(
    ("owned", "given", "lacking"),
    [
        ([_rule("pods")], [_rule("pods")], []),
        ([_rule("pods", verbs="get"), _rule("pods", verbs="list")], [_rule("pods", verbs="get,list")], []),
        ([_rule("*", verbs="*", groups="*")], [_rule("pods/log", groups="apps", names="x")], []),
        ([_rule("*/scale", groups="apps")], [_rule("deployments/scale", groups="apps")], []),
        (
            [_rule("*/scale", groups="apps")],
            [_rule("deployments", groups="apps")],
            ['{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}'],
        ),
        (
            [_rule("pods", names="x")],
            [_rule("pods", verbs="get,list", names="x,y")],
            [
                '{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["list"]}',
                '{APIGroups:[""], Resources:["pods"], ResourceNames:["y"], Verbs:["get" "list"]}',
            ],
        ),
        (
            [_rule("pods", names="x")],
            [_rule("pods")],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        ([_paths("/apis/*")], [_paths("/apis/apps")], []),
        (
            [_paths("/apis/*")],
            [_paths("*", verbs="get,post")],
            [
                '{NonResourceURLs:["*"], Verbs:["get"]}',
                '{NonResourceURLs:["*"], Verbs:["post"]}',
            ],
        ),
        ([_rule("*", verbs="*", groups="*")], [_paths("/x")], ['{NonResourceURLs:["/x"], Verbs:["get"]}']),
    ],
)
def test_requested_rules_that_the_users_own_rules_do_not_cover_are_found(
    owned: list[dict[str, Any]], given: list[dict[str, Any]], lacking: list[str]
) -> None:
    assert sorted(format_rule(rule) for rule in find_uncovered(owned, given)) == lacking
