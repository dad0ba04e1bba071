"""The rules that the types of 1.37 declare are upstream's ``+k8s:`` tags, field by field."""

import json
import re
from collections.abc import Iterator

from dra_apiserver.common.declarative.structs import Field, Rule, Stage, fields
from dra_shared.api.schema import schema_document
from dra_shared.version import V1_37

from tests.support.cases import each_case
from tests.support.reference import reference_path

_STAGED = re.compile(r'\+k8s:(alpha|beta)\(since: "[\d.]+"\)=')
_GROUPS = {
    f"{group}/{version}": f"io.k8s.api.{group.partition('.')[0]}.{version}"
    for group, versions in {
        "resource.k8s.io": ("v1", "v1beta2", "v1beta1", "v1alpha3"),
        "scheduling.k8s.io": ("v1", "v1beta1", "v1alpha3"),
    }.items()
    for version in versions
}
# Conditions are checked by hand-written code.
_HAND_WRITTEN = {"conditions"}
# The table lacks the tags of these types.
_NOT_READ = {"compatibilityGroups", "distinctAttribute"}
# These say how a value is compared or generated, not what it may be.
_NO_RULES = ("enum", "opaqueType", "optional")
# 1.36.2's types have the rule; the table lacks it in this version of the API alone.
_LOST = {("resource.k8s.io/v1beta1", "DeviceRequestAllocationResult", "tolerations")}


def _tags(group_version: str) -> Iterator[tuple[str, str, set[str]]]:
    """Yield type, field, and the rules that are enforced in 1.37: standard and beta ones."""
    table = json.loads(
        reference_path("reference", "kubernetes-1.37", "declarative-tags-1.37.json").read_text()
    )
    for type_name, properties in table[group_version].items():
        for name, tags in properties.items() if type_name[0].isupper() else ():
            staged = [(_STAGED.match(tag), tag) for tag in tags if tag.startswith("+k8s:")]
            rules = {
                _plain(tag[found.end() :] if found else tag)
                for found, tag in staged
                if found is None or found[1] == "beta"
            }
            if name:
                yield type_name, name, rules.difference(_NO_RULES)


def _plain(tag: str) -> str:
    """Return the tag as in the schema data."""
    text = tag.partition(" #")[0].replace("=+k8s:", ": ").replace("+k8s:", "")
    return re.sub(r'\("([^"]*)"\)', r"(\1)", text)


def _text(rule: Rule) -> str:
    argument = f"({rule.argument})" if rule.argument else ""
    value = f"={rule.value}" if rule.value else ""
    return f"{rule.name}{argument}{value}" + (f": {_text(rule.inner)}" if rule.inner else "")


def _rules(field: Field) -> set[str]:
    # The table has the tags of 1.37.
    shadows = (None, Stage.ALPHA)
    return {
        _text(rule)
        for rule in field.rules
        if rule.name not in _NO_RULES and rule.stage_in(V1_37) not in shadows
    }


@each_case("group_version", _GROUPS)
def test_declared_rules_equal_the_tags_of_upstream(group_version: str) -> None:
    package = _GROUPS[group_version]
    document = schema_document(package)
    known = json.loads(document) if document is not None else {}
    tried = 0
    for type_name, name, wanted in _tags(group_version):
        lost = (group_version, type_name, name) in _LOST
        if type_name not in known or lost or name in _HAND_WRITTEN | _NOT_READ:
            continue
        ours = {field.name: _rules(field) for field in fields(f"{package}.{type_name}")}
        assert ours[name] == wanted, (type_name, name)
        tried += 1
    assert tried or group_version == "scheduling.k8s.io/v1"


def test_declared_values_equal_the_enumerations_of_upstream() -> None:
    table = json.loads(
        reference_path("reference", "kubernetes-1.37", "declarative-tags-1.37.json").read_text()
    )
    for group_version, package in _GROUPS.items():
        wanted = {
            name.removeprefix("(enum) "): set(about["values"])
            for name, about in table[group_version].items()
            if name.startswith("(enum) ") and about.get("values")
        }
        document = schema_document(package)
        used = {
            spec["x-go"][0].rpartition(".")[2]: set(spec["enum"])
            for schema in (json.loads(document) if document is not None else {}).values()
            for spec in schema.get("properties", {}).values()
            if "enum" in spec
        }
        for name in wanted.keys() & used.keys():
            assert used[name] == wanted[name], name
