"""The documentation matches the code."""

import ast
import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from dra_controller.registry import CONTROLLERS
from dra_scheduler.plan.questions.catalog import QUESTIONS
from dra_shared.faults.catalog import KINDS

from tests.support.cases import check_all, each_case
from tests.support.reference import REPOSITORY, load_vectors, reference_path

DOCS = REPOSITORY / "docs"
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "examples").rglob("*.md")],
    key=str,
)
PACKAGES = {
    "shared": "dra_shared",
    "services/apiserver": "dra_apiserver",
    "services/scheduler": "dra_scheduler",
    "services/controller": "dra_controller",
    "services/node-agent": "dra_node_agent",
    "toolkit": "",
    "cli": "",
}
SERVICES = ("dra_apiserver", "dra_scheduler", "dra_controller", "dra_node_agent")
# Packages in which every public class and function needs a docstring. Exceptions are the API's objects, which
# are Kubernetes' own, and functions behind dra_shared.cel that have CEL's names and meaning.
EXPLAINED = (REPOSITORY / "shared/dra_shared", REPOSITORY / "services/scheduler/dra_scheduler/allocator")
UPSTREAM = (REPOSITORY / "shared/dra_shared/api", REPOSITORY / "shared/dra_shared/cel")
LONGEST_FILE = 600
LONGEST_FUNCTION = 60
# A comment that silences a checker without a reason.
_BARE = re.compile(r"# (?:noqa|type: ignore)(?:: ?[A-Z0-9, ]+|\[[a-z, -]+\])?\s*$")
CODE = ("bench", "cli", "services", "shared", "tests", "toolkit", "tools")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def _modules() -> list[Path]:
    """Yield every handwritten module."""
    return [
        path for folder, package in PACKAGES.items() for path in (REPOSITORY / folder / package).rglob("*.py")
    ]


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def _links(page: Path) -> Iterator[tuple[str, Path]]:
    """Return the page's relative links with their targets."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in _LINK.findall(text):
        if "://" not in link and not link.startswith(("#", "mailto:")):
            yield link, (page.parent / link.partition("#")[0]).resolve()


@each_case("page", PAGES, ids=_name)
def test_targets_of_links_between_pages_exist(page: Path) -> None:
    dead = [link for link, target in _links(page) if not target.exists()]
    assert not dead


def test_every_page_can_be_reached_from_the_index() -> None:
    found: set[Path] = set()
    new = [DOCS / "README.md"]
    while new:
        page = new.pop()
        if page not in found:
            found.add(page)
            new += [target for _, target in _links(page) if target.suffix == ".md"]
    assert set(DOCS.rglob("*.md")) <= found


@each_case("page", PAGES, ids=_name)
def test_pages_contain_no_local_paths(page: Path) -> None:
    assert not re.findall(r"/(?:home|root|Users|work)/\w+", page.read_text())


def test_every_environment_variable_is_documented() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    sources = [*_modules(), *(REPOSITORY / "tests").rglob("*.py"), REPOSITORY / "docker-compose.yml"]
    named = {
        name
        for source in sources
        for name in re.findall(r"\bDRALAB_[A-Z][A-Z_]*[A-Z]\b", source.read_text())
        if source != Path(__file__)
    }
    unknown = {name for name in named if name not in pages}
    # The value of a flag is documented with the flag.
    flags = re.findall(r"`--([a-z-]+)`", (DOCS / "configuration.md").read_text())
    made = {
        f"DRALAB_{service}{flag.replace('-', '_').upper()}"
        for flag in flags
        for service in ("", "APISERVER_", "SCHEDULER_", "CONTROLLER_", "NODE_AGENT_")
    }
    assert unknown <= made


def test_documented_environment_variables_exist() -> None:
    section = (DOCS / "configuration.md").read_text().partition("## Environment variables without a flag")[2]
    rows = re.findall(r"^\| (.*?) \|", section.partition("\n## ")[0], re.MULTILINE)
    named = set(re.findall(r"`(DRALAB_\w+)`", " ".join(rows)))
    sources = [*_modules(), *(REPOSITORY / "tests").rglob("*.py"), *REPOSITORY.glob("docker-compose*.yml")]
    sources += [
        REPOSITORY / "Makefile",
        *(path for path in (REPOSITORY / "tools").rglob("*") if path.is_file()),
    ]
    texts = "".join(path.read_text(errors="ignore") for path in sources)
    assert len(named) > 10
    assert not [name for name in named if name not in texts]


def test_make_help_and_the_guides_list_the_same_targets() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    guides = (REPOSITORY / "CONTRIBUTING.md").read_text() + (REPOSITORY / "README.md").read_text()
    named = set(
        re.findall(r"\bmake ([a-z-]+)", " ".join(re.findall(r"`[^`]*`|```.*?```", guides, re.DOTALL)))
    )
    assert named <= targets
    assert {"demo", "test"} <= named
    assert targets <= set(re.findall(r"`make ([a-z-]+)`", guides)) | {"demo", "help"}


def test_modules_and_public_names_have_docstrings_and_functions_are_short() -> None:
    files = (path for folder in CODE for path in sorted((REPOSITORY / folder).rglob("*.py")))
    check_all(((_name(path), path) for path in files), _check_code)


def _check_code(path: Path) -> None:
    text = path.read_text()
    lines = len(text.splitlines())
    assert lines <= LONGEST_FILE, f"{lines} lines: at most {LONGEST_FILE}, split it"
    bare = [number for number, line in enumerate(text.splitlines(), 1) if _BARE.search(line)]
    assert not bare, f"lines {bare}: say why a checker is wrong here, after what it shall pass over"
    tree = ast.parse(text)
    long = _long_functions(text, tree)
    assert not long, f"{long}: split these, or say why not in a line '# Long: REASON' above them"
    if _below(path, tuple(REPOSITORY / folder / package for folder, package in PACKAGES.items())):
        _check_module(path, tree)


def _check_module(path: Path, tree: ast.Module) -> None:
    if not path.stem.startswith("_") or path.stem == "__init__":
        assert ast.get_docstring(tree), "no docstring"
    if _below(path, EXPLAINED) and not _below(path, UPSTREAM):
        assert not list(_without_docstring(tree))


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("x  # noqa: B018", True),
        ("x  # type: ignore[misc, arg-type]", True),
        ("x  # noqa: B018  # reads the file", False),
        ("x  # noqa: B018 - reads the file", False),
        ("x  # type: ignore[misc]  # a reason", False),
    ],
)
def test_every_suppressed_check_has_a_reason(line: str, bare: bool) -> None:
    assert bool(_BARE.search(line)) is bare


def test_the_check_for_long_functions_finds_one() -> None:
    body = "    pass\n" * LONGEST_FUNCTION
    source = f"def f():\n{body}\n\n# Long: a table.\n@cache\ndef g():\n{body}\n\ndef h():\n    pass\n"
    assert _long_functions(source, ast.parse(source)) == [(1, "f")]


def _long_functions(source: str, tree: ast.Module) -> list[tuple[int, str]]:
    """Return functions that are too long and have no reason in the line above them."""
    lines = source.splitlines()
    found = []
    for node in _functions(tree.body):
        assert node.end_lineno is not None
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        reason = lines[first - 2].strip() if first > 1 else ""
        if node.end_lineno - node.lineno >= LONGEST_FUNCTION and not reason.startswith("# Long: "):
            found.append((node.lineno, node.name))
    return found


def _functions(statements: Iterable[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions in statements, recursively. Expressions, which are most of the tree, contain none."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _functions(getattr(statement, block, ()))


def _below(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def test_public_names_of_the_cel_package_have_docstrings() -> None:
    import dra_shared.cel

    offered = [getattr(dra_shared.cel, name) for name in dra_shared.cel.__all__]
    assert not [thing for thing in offered if callable(thing) and not thing.__doc__]


def _without_docstring(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if (
            isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ):
            yield node.name


def test_the_changelog_has_an_unreleased_section() -> None:
    assert "## [Unreleased]" in (REPOSITORY / "CHANGELOG.md").read_text()


def _first_cells(page: str) -> set[str]:
    """Return the first words in code of the tables' first cells."""
    rows = (row for row in (DOCS / page).read_text().splitlines() if row.startswith("| `"))
    return {name for row in rows for name in re.findall(r"`([a-z-]+)", row.split("|")[1])}


def test_every_fault_and_every_planner_question_has_a_row_in_the_docs() -> None:
    assert set(KINDS) <= _first_cells("faults.md")
    assert set(QUESTIONS) <= _first_cells("plan.md")


def test_modules_that_pages_name_exist() -> None:
    folders = [folder for folder in REPOSITORY.iterdir() if not folder.name.startswith(".")]
    files = [str(path).removesuffix(".tmpl") for folder in folders for path in folder.rglob("*.py*")]
    names = "\n".join(files) + "\n"
    missing = {
        f"{_name(page)}: {module}"
        for page in PAGES
        for module in re.findall(r"`([\w/-]+\.py)`", page.read_text())
        if f"/{module}\n" not in names
    }
    assert not missing


def test_metrics_that_are_documented_exist() -> None:
    text = (DOCS / "metrics.md").read_text()
    named = set(re.findall(r"`((?:apiserver|scheduler|workqueue|dra|dralab|\w+_controller)_[a-z_]+)`", text))
    sources = "".join(path.read_text() for path in _modules())
    assert named
    missing = {name for name in named if name not in sources and name.removesuffix("_total") not in sources}
    assert not missing


def test_every_metric_has_a_row() -> None:
    text = (DOCS / "metrics.md").read_text()
    made = re.compile(r'\b(?:Counter|Gauge|Histogram|\w+MetricFamily|gauge)\(\s*"([a-z]+(?:_[a-z]+)+)"')
    names = {name for path in _modules() for name in made.findall(path.read_text())}
    assert "scheduler_pending_pods" in names
    assert not {name for name in names if f"`{name}" not in text}


def test_conformance_tables_have_as_many_cases_as_documented() -> None:
    vectors = reference_path("vectors")
    rows = re.findall(r"^\| `([a-z_-]+)` \| (\d+) \|", (DOCS / "conformance.md").read_text(), re.MULTILINE)
    assert rows
    assert rows == [(table, str(_count(vectors, table))) for table, _ in rows]


def _count(vectors: Path, table: str) -> int:
    """Return the number of cases of the table. In tables of random cases, each line is a case."""
    if not table.startswith("random-"):
        return len(load_vectors(f"{table}.json.gz"))
    with gzip.open(vectors / f"{table}.jsonl.gz") as lines:
        return sum(1 for _ in lines)


def test_every_controller_is_described_on_a_page() -> None:
    page = (DOCS / "controllers" / "README.md").read_text()
    assert not [name for name in CONTROLLERS if f"`{name}`" not in page]


def test_paths_in_the_architecture_table_exist() -> None:
    table = (REPOSITORY / "docs/architecture.md").read_text().split("## Where to change what\n")[1]
    paths = re.findall(r"`((?:shared|services|toolkit|cli|tests)/[\w/.-]+)`", table)
    assert len(paths) > 10
    assert not [path for path in paths if not (REPOSITORY / path).exists()]
