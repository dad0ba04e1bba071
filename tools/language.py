"""Check the language of docstrings, names, docs pages and commit titles; CONTRIBUTING.md has the rules.

``python -m tools.language`` fails if a package has more findings of a rule than tools/language.toml allows. It also
fails if a package has fewer: ``python -m tools.language --update`` then writes the lower numbers. The total of a rule
never rises, so code may move between packages, but new findings have to be fixed.
"""

import argparse
import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FOLDERS = (
    "bench",
    "cli",
    "docs",
    "examples",
    "services",
    "shared",
    "templates",
    "tests",
    "toolkit",
    "tools",
)
# The changelog has one line for each change. Pages below tests describe recorded data.
_NOT_PAGES = ("CHANGELOG.md", "tests/")
_MOST_COLUMNS = 100
_LONGEST_TITLE = 72
_MOST_SHOWN = 20
_HEADER = "# Findings that each package still has, written by `python -m tools.language --update`. They only go down.\n"

RULES = {
    "docstrings": "a docstring says what the function does: Return, Validate, True if",
    "participles": "a function is named by a verb, and a value by a noun",
    "tests": "a test's name is a statement with subject and verb",
    "columns": f"a line of a page has at most {_MOST_COLUMNS} columns",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DOCSTRING = re.compile(
    r"\W*(What|Which|Who|Whose|Where|How|Why|Whether|As|Of|Those|That|Nothing)\b(?!-)", re.IGNORECASE
)
_TEST = re.compile(r"test_(what|which|who|whose|where|how|why|whether|as|of|those|that|it)(_|$)")
_IRREGULAR = _words(
    """
    begun bent born borne bought bound bred broken brought built caught chosen dealt done drawn
    driven fallen fed felt fled flown forbidden forgotten found frozen given gone grown heard held
    hidden hung kept known laid led left lent lost made meant met mistaken overdrawn overwritten
    paid proven rebuilt rewritten said seen sent shaken shot shown slept sold spent spoken spun
    stolen stood struck stuck sunk swept sworn taken taught thought thrown told torn undone
    understood unknown unmet unread unsent withdrawn withheld woken won worn woven written
    """
)
# Base forms with the ending of a participle.
_VERBS = _words(
    """
    bring embed exceed feed heed need ping precede proceed recede ring seed shed shred speed string
    succeed swing wing weed wed
    """
)
# Reviewed exceptions: nouns of the field, and other words with the ending of a participle.
_NOUNS = _words(
    """
    anything beginning binding bed during embedding everything heading housekeeping listing mapping
    nothing pending scaffolding setting something string substring thing training warning
    """
)
# Reviewed exceptions: names from the interfaces of futures, locks, client-go's work queues and feature gates.
_INTERFACES = frozenset({"cancelled", "done", "enabled", "locked"})

_CODE = re.compile(r"(`+).+?\1")
_LINK = re.compile(r"!?\[[^\[\]]*\](\([^()]*\)|\[[^\[\]]*\])")
_MARKER = re.compile(r"^(\s*(>|[-*+]|\d+[.)]))*\s*")

_TITLE = re.compile(r"[a-z0-9][a-z0-9 ,./_-]*: ([a-z]+(?:-[a-z]+)*) \S")
_REVERT = re.compile(r'Revert "')
# First words of a statement or of a phrase.
_NOT_IMPERATIVE = _words(
    """
    a all an and another any as at both by each either every few for from half how if in into it its
    many more most much neither new no none not nothing of on once one only other our out own
    plainer same several so some such than that the their them then these they this those three to
    two under unless what when where whether which who whose why with within without
    """
)
_ALSO_IMPERATIVE = _VERBS | {"alias", "bias", "bound", "found"}


@dataclass(frozen=True, order=True)
class Finding:
    """A place that breaks a rule."""

    rule: str
    path: str
    line: int
    text: str

    @property
    def package(self) -> str:
        """The first two folders of the path."""
        return "/".join(self.path.split("/")[:-1][:2]) or "."

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


Counts = dict[str, dict[str, int]]


def is_participle(name: str) -> bool:
    """True if a function's name is a participle alone, such as ``made`` or ``_waiting``."""
    word = name.strip("_")
    if word in _VERBS | _NOUNS | _INTERFACES:
        return False
    return word in _IRREGULAR or (word.isalpha() and word.islower() and word.endswith(("ed", "ing")))


def check_code(path: str, source: str) -> Iterator[Finding]:
    """Yield the findings in a module: its docstrings, and the names of its functions and tests."""
    # Expressions hold neither docstrings nor functions, and most of a tree's nodes are theirs: visit statements alone.
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            value = getattr(node, field, None)
            if isinstance(value, list):
                pending += value
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if _TEST.match(name):
                    yield Finding("tests", path, node.lineno, name)
                elif is_participle(name):
                    yield Finding("participles", path, node.lineno, name)
            case ast.Expr(value=ast.Constant(value=str(text))) if _DOCSTRING.match(text):
                yield Finding("docstrings", path, node.lineno, text.strip().splitlines()[0])


def check_page(path: str, text: str) -> Iterator[Finding]:
    """Yield the lines of a page that are too long and could be broken."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        start = line.lstrip(" >")
        if fence:
            fence = "" if start.startswith(fence) else fence
        elif start.startswith(("```", "~~~")):
            fence = start[:3]
        elif len(line) > _MOST_COLUMNS and not start.startswith(("|", "#", "<!--")) and _is_breakable(line):
            yield Finding("columns", path, number, f"{len(line)} columns: {line.strip()[:60]}…")


def _is_breakable(line: str) -> bool:
    # Treat a link or a code span as one word. A line that has only one word after its list marker cannot be broken.
    line = _LINK.sub("link", _CODE.sub("code", _MARKER.sub("", line)))
    return len(line.split()) > 1


def check_files(root: Path) -> list[Finding]:
    """Return the findings in all modules and pages below root, in order."""
    findings: list[Finding] = []
    files = [*root.glob("*.md"), *(path for folder in _FOLDERS for path in (root / folder).rglob("*.*"))]
    for file in files:
        path = file.relative_to(root).as_posix()
        if file.suffix == ".py":
            findings += check_code(path, file.read_text())
        elif file.suffix == ".md" and not path.startswith(_NOT_PAGES):
            findings += check_page(path, file.read_text())
    return sorted(findings)


def check_title(title: str) -> str | None:
    """Return the problem with a commit's title, or None."""
    if _REVERT.match(title):
        return None
    if len(title) > _LONGEST_TITLE:
        return f"has {len(title)} characters, and at most {_LONGEST_TITLE} are shown"
    found = _TITLE.match(title)
    if not found:
        return "is not `area: verb object`"
    word = found[1].partition("-")[0]
    if word in _ALSO_IMPERATIVE:
        return None
    is_plural = word.endswith("s") and not word.endswith(
        ("ss", "us")
    )  # Also reject the third person, such as adds, but not process or focus.
    if word in _NOT_IMPERATIVE | _IRREGULAR or word.endswith(("ed", "ing")) or is_plural:
        return f"is not in the imperative: {word!r} is no command"
    return None


def _git(root: Path, *arguments: str) -> str | None:
    # None if git is missing, the commit does not exist, or git refuses a repository of another user.
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _main_refs(root: Path) -> list[str]:
    # The refs of main that share history with HEAD. Empty in a folder that is not a repository of its own, such as an
    # sdist unpacked in another project, and in a shallow clone, whose history may lack the commit where main forked.
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return []
    if _git(root, "rev-parse", "--is-shallow-repository") != "false":
        return []
    refs = ("refs/heads/main", "refs/remotes/origin/main")
    return [
        ref for ref in refs if _git(root, "merge-base", "HEAD", ref)
    ]  # Skip refs without a common ancestor: they belong to an unrelated history.


def check_titles(root: Path) -> list[str]:
    """Return a message for each wrong title of the commits that main lacks, oldest first.

    Nothing is checked if HEAD is main itself, or if main is unknown, as in an sdist. Old titles stay as they are.
    """
    refs = _main_refs(root)
    if not refs:
        return []
    log = _git(root, "log", "--reverse", "--no-merges", "--format=%h %s", "HEAD", "--not", *refs) or ""
    messages = []
    for line in log.splitlines():
        commit, _, title = line.partition(" ")
        if wrong := check_title(title):
            messages.append(f"commit {commit}: {title!r} {wrong}")
    return messages


def count(findings: Sequence[Finding]) -> Counts:
    """Return the number of findings for each rule and package."""
    counts: Counts = {rule: {} for rule in RULES}
    for (rule, package), number in Counter((found.rule, found.package) for found in findings).items():
        counts[rule][package] = number
    return counts


def read_counts(path: Path) -> Counts:
    """Return the allowed numbers; a rule without an entry allows none."""
    recorded: Counts = tomllib.loads(path.read_text()) if path.exists() else {}
    return {rule: recorded.get(rule, {}) for rule in RULES}


def write_counts(path: Path, counts: Counts) -> None:
    """Write the allowed numbers, sorted by package."""
    tables = [
        "\n".join([f"[{rule}]", *(f'"{package}" = {number}' for package, number in sorted(packages.items()))])
        for rule, packages in counts.items()
    ]
    path.write_text(_HEADER + "\n" + "\n\n".join(tables) + "\n")


def _new_findings(root: Path, findings: Sequence[Finding]) -> list[Finding]:
    # Print the findings in lines that the working tree adds to main.
    refs = _main_refs(root)
    base = _git(root, "merge-base", "HEAD", refs[0]) if refs else None
    if not base:
        return []
    added: set[tuple[str, int]] = set()
    path = ""
    diff = _git(
        root, "diff", "--unified=0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", base
    )
    for line in (diff or "").splitlines():
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(hunk[1])
            added |= {(path, number) for number in range(first, first + int(hunk[2] or 1))}
    untracked = set((_git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines())
    return [found for found in findings if (found.path, found.line) in added or found.path in untracked]


def compare(root: Path, findings: Sequence[Finding], allowed: Counts) -> list[str]:
    """Return a message for each rule and package whose number of findings differs from the allowed one."""
    messages: list[str] = []
    counts = count(findings)
    for rule, reason in RULES.items():
        for package in sorted({*counts[rule], *allowed[rule]}):
            number, most = counts[rule].get(package, 0), allowed[rule].get(package, 0)
            if number < most:
                messages.append(
                    f"{package}: {number} findings of {rule}, and {most} recorded. Well done; record it with"
                    " `python -m tools.language --update`"
                )
            elif number > most:
                own = [found for found in findings if (found.rule, found.package) == (rule, package)]
                shown = _new_findings(root, own) or own
                messages.append(f"{package}: {number} findings of {rule}, and {most} are allowed; {reason}")
                messages += [f"  {found}" for found in shown[:_MOST_SHOWN]]
                if len(shown) > _MOST_SHOWN:
                    messages.append(f"  … and {len(shown) - _MOST_SHOWN} more")
    return messages


def update(path: Path, counts: Counts) -> list[str]:
    """Write the numbers of findings to path, unless the total of a rule rose: return a message for each such rule."""
    if path.exists():
        allowed = read_counts(path)
        risen = [rule for rule in RULES if sum(counts[rule].values()) > sum(allowed[rule].values())]
        if risen:
            return [f"{rule}: more findings than recorded; fix the new ones first" for rule in risen]
    write_counts(path, counts)
    return []


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Check the repository at root, print what is wrong, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.language",
        description="Check the wording of docstrings, names, pages and commit titles (CONTRIBUTING.md has the rules).",
    )
    parser.add_argument("--update", action="store_true", help="write the lower numbers of findings")
    options = parser.parse_args(arguments)
    gc.disable()  # Trees of 2,000 modules hold no cycles, and looking for some takes as long as parsing.
    findings = check_files(root)
    recorded = root / "tools" / "language.toml"
    refused = update(recorded, count(findings)) if options.update else []
    messages = refused + compare(root, findings, read_counts(recorded)) + check_titles(root)
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
