"""The pages that are generated from the code are complete."""

import re
from functools import cache

import dralab.testing
import pytest
from dra_apiserver.kinds.catalog import KINDS
from dra_cli import commandline
from dra_shared.version import DEFAULT, V1_34, V1_35, VERSIONS, release
from dra_worlds.world import World
from dralab.testing import AsyncCluster, Cluster

from tests.docs.flags import flags_of
from tests.support.cases import each_case
from tools.reference import pages


@cache
def _pages() -> dict[str, str]:
    return {page.path.removeprefix("reference/"): page.text for page in pages()}


def _section(page: str, heading: str) -> str:
    """Return the text after a heading, until the next heading of its level or above."""
    level = heading.partition(" ")[0]
    text = _pages()[page].partition(f"\n{heading}\n")[2]
    return re.split(rf"^#{{1,{len(level)}}} ", text, flags=re.MULTILINE)[0]


@each_case("command", commandline.COMMANDS)
def test_every_option_of_a_command_is_listed(command: str) -> None:
    section = _section("commands.md", f"### {command}")
    assert f"dralab {command}" in section
    assert not [flag for flag in flags_of(command) if not re.search(rf"`{flag}[` ]", section)]


def test_every_gate_is_listed_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (on|off) ", _pages()["feature-gates.md"], re.MULTILINE))
    assert rows == {name: "on" if gate.default else "off" for name, gate in release(DEFAULT).gates.items()}
    row = "| `DRADerivedAttributes` | Alpha | off |  | `DynamicResourceAllocation` | yes |"
    assert row in _pages()["feature-gates.md"]


def test_each_version_of_kubernetes_has_a_page() -> None:
    pages = _pages()
    for version in VERSIONS:
        page = pages[f"kubernetes-{version}.md"]
        gates = dict(re.findall(r"^\| `(DRA\w+)` \| (\w+) ", page, re.MULTILINE))
        known = {name: gate.stage for name, gate in release(version).gates.items() if name.startswith("DRA")}
        assert {name: stage for name, stage in gates.items() if stage != "gone"} == known
    assert "| `GangScheduling` | gone |" in pages["kubernetes-1.37.md"]
    assert "| `scheduling.k8s.io/v1alpha1` | `workloads` |" in pages["kubernetes-1.35.md"]
    for version in (V1_34, V1_35):
        option = "`--runtime-config=resource.k8s.io/v1alpha3=true`"
        row = f"| `resource.k8s.io/v1alpha3` | `devicetaintrules` | {option} |"
        assert row in pages[f"kubernetes-{version}.md"]
    options = "`--runtime-config=scheduling.k8s.io/v1beta1=true`, `--feature-gates=GenericWorkload=true`"
    row = f"| `scheduling.k8s.io/v1beta1` | `podgroups`, `workloads` | {options} |"
    assert row in pages["kubernetes-1.37.md"]
    assert "scheduling.k8s.io/v1alpha1" not in pages["kubernetes-1.36.md"]
    assert "`schedulingGroup` | `workloadRef` |" in pages["kubernetes-1.36.md"]


def test_every_kind_is_listed_in_the_api_reference() -> None:
    page = _pages()["kinds/index.md"]
    assert not [kind.kind for kind in KINDS if not re.search(rf"^\| \[?{kind.kind}[\] ]", page, re.MULTILINE)]


def test_fields_are_listed_with_type_and_description() -> None:
    claim = _section("kinds/resource.k8s.io.md", "## ResourceClaim")
    assert "| `spec` | [ResourceClaimSpec](#resourceclaimspec) | What is claimed." in claim
    assert "| `metadata` | [ObjectMeta](meta.v1.md#objectmeta) |" in claim
    pod = _section("kinds/core.md", "## PodSpec")
    assert "| `resourceClaims` | list of [PodResourceClaim](#podresourceclaim) |" in pod
    counters = _section("kinds/resource.k8s.io.md", "## CounterSet")
    assert "| `counters` (required) | map of [Counter](#counter) |" in counters


@pytest.mark.parametrize("thing", [World, Cluster, AsyncCluster])
def test_every_public_method_is_listed_in_the_python_reference(thing: type[object]) -> None:
    section = _section("python.md", f"### {thing.__name__}")
    public = [name for name in vars(thing) if not name.startswith("_")]
    assert not [name for name in public if f"#### {name}\n" not in section]


def test_public_names_of_the_testing_package_are_listed() -> None:
    assert not [name for name in dralab.testing.__all__ if f"### {name}\n" not in _pages()["python.md"]]


def test_signatures_in_the_reference_name_types_as_in_the_code() -> None:
    section = _section("python.md", "#### with_nodes")
    assert "with_nodes(nodes: int | str | Path | dict[str, Any] | Iterable[dict[str, Any]]" in section
    assert "* `WorldError`: the nodes cannot be created or read." in section
