"""The pages of the site, and the problems that its builder finds."""

import re
from pathlib import Path

import pytest
from dra_cli.documentation.pages import GENERATED, Pages

from tests.support.reference import REPOSITORY
from tools.reference import Page
from tools.site.build import build

_INDEX = f"""# Home

All of it.

## Guides

* [`One`](one.md): first

## Facts

* [More](more/README.md): rest

{GENERATED}
"""
_MADE = [
    Page("reference/words.md", "Words", "All words. And more.", "* a"),
    Page("reference/kinds/index.md", "Kinds", "All kinds.", "[A](a.md)"),
    Page("reference/kinds/a.md", "A", "The kind A.", "* b"),
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a small repository with documentation."""
    files = {
        "docs/README.md": _INDEX,
        "docs/one.md": "# One\n\nSee [more](more/README.md#part), [a program](../bin/x.py), [all](../bin), "
        "[news](../NEWS.md).\n",
        "docs/more/README.md": "# More\n\n## Part\n\n[one](../one.md), [two](two.md), [elsewhere](https://example.com)\n",
        "docs/more/two.md": "# Two\n\n```sh\necho [x](y.md)\n```\n",
        "NEWS.md": "# News\n\n[One](docs/one.md)\n",
        "bin/x.py": "print(1)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_links_point_to_the_pages_of_the_site(repository: Path) -> None:
    texts = Pages(repository, _MADE).texts
    assert "[more](more/README.md#part)" in texts["one.md"]
    assert "[a program](files/bin/x.py.md), [all](files/bin.md), [news](NEWS.md)" in texts["one.md"]
    assert "[One](one.md)" in texts["NEWS.md"]
    assert "[one](../one.md), [two](two.md), [elsewhere](https://example.com)" in texts["more/README.md"]
    assert "echo [x](y.md)" in texts["more/two.md"]


def test_a_link_by_a_files_name_has_the_pages_title(repository: Path) -> None:
    with (repository / "docs/more/two.md").open("a") as page:
        page.write(
            "\n[one.md](../one.md#x), [`../one.md`](../one.md), [gone.md](gone.md), [one](../one.md)\n"
        )
    text = Pages(repository, _MADE).texts["more/two.md"]
    assert "[One](../one.md#x), [One](../one.md), [gone.md](gone.md), [one](../one.md)" in text


def test_a_linked_file_becomes_a_page_that_shows_it(repository: Path) -> None:
    texts = Pages(repository, _MADE).texts
    assert texts["files/bin/x.py.md"] == "# bin/x.py\n\n````python\nprint(1)\n````\n"
    assert "## x.py\n\n````python" in texts["files/bin.md"]


def test_pictures_that_pages_show_are_copied_into_the_site(repository: Path, tmp_path: Path) -> None:
    (repository / "docs/images").mkdir()
    (repository / "docs/images/a.svg").write_text("<svg/>")
    with (repository / "docs/one.md").open("a") as page:
        page.write("\n![A picture](images/a.svg)\n")
    pages = Pages(repository, _MADE)
    assert "![A picture](images/a.svg)" in pages.texts["one.md"]
    pages.write(tmp_path / "out")
    assert (tmp_path / "out/images/a.svg").read_text() == "<svg/>"


def test_the_index_is_the_table_of_contents(repository: Path) -> None:
    pages = Pages(repository, _MADE)
    assert pages.navigation() == [
        {"Home": "README.md"},
        {"Guides": [{"One": "one.md"}]},
        {
            "Facts": [
                {"More": ["more/README.md", "more/two.md"]},
                {"Words": "reference/words.md"},
                {"Kinds": ["reference/kinds/index.md", {"A": "reference/kinds/a.md"}]},
            ]
        },
    ]
    assert (
        "* [Words](reference/words.md): All words\n* [Kinds](reference/kinds/index.md)"
        in pages.texts["README.md"]
    )
    assert "kinds/a.md" not in pages.texts["README.md"]


def test_each_broken_link_is_a_problem(repository: Path, tmp_path: Path) -> None:
    assert build(repository, tmp_path / "out", _MADE) == []
    assert (tmp_path / "out" / "more" / "two.html").exists()
    with (repository / "docs/one.md").open("a") as page:
        page.write("\n[gone](gone.md) [part](one.md#gone) [generated](reference/gone.md)\n")
    found = build(repository, tmp_path / "out", _MADE)
    assert len(found) == 3
    for problem in ("'gone.md'", "'one.md#gone'", "'reference/gone.md'"):
        assert any(problem in text for text in found), found


def test_every_page_is_in_the_table_of_contents() -> None:
    pages = Pages(REPOSITORY, [])
    listed = str(pages.navigation())
    missing = [path for path in pages.texts if not path.startswith("files/") and f"'{path}'" not in listed]
    assert not missing, "docs/README.md has no line for them"


def test_images_are_copied_unchanged(repository: Path, tmp_path: Path) -> None:
    (repository / "docs/images").mkdir()
    (repository / "docs/images/a.png").write_bytes(b"\x89PNG")
    (repository / "docs/more/two.md").write_text("# Two\n\n![a picture](../images/a.png)\n")
    pages = Pages(repository, _MADE)
    pages.write(tmp_path / "out")
    assert "![a picture](../images/a.png)" in pages.texts["more/two.md"]
    assert (tmp_path / "out/images/a.png").read_bytes() == b"\x89PNG"


def test_markdown_lists_are_rendered_as_lists_in_the_site() -> None:
    """Python's Markdown needs an empty line above a list, and four spaces before a nested one."""
    item = r"(?:[*-]|\d+\.) "
    wrong = []
    for path, text in Pages(REPOSITORY, []).texts.items():
        prose = re.sub(r"^ *````?.*?^ *````?$", "", text, flags=re.MULTILINE | re.DOTALL)
        wrong += [(path, line) for line in re.findall(rf"^ {{1,3}}{item}.*", prose, re.MULTILINE)]
        wrong += [(path, line) for line in re.findall(rf"^[^\s*|#\d-].*\n{item}.*", prose, re.MULTILINE)]
    assert wrong == []
