"""The folder of a learner."""

from pathlib import Path

import pytest
from dra_lab.learn.lesson import lesson, lessons
from dra_lab.learn.notebook import Notebook
from dra_shared.errors import UserError


def test_a_learner_continues_at_the_last_lesson(tmp_path: Path) -> None:
    first = Notebook(tmp_path)
    assert first.lesson_to_resume.number == 1
    first.choose(lesson("3"))
    assert Notebook(tmp_path).lesson_to_resume.number == 3
    first.solve(lesson("3"))
    assert Notebook(tmp_path).lesson_to_resume.number == 4
    assert Notebook(tmp_path).solved_lessons == {3}


def test_lessons_that_were_skipped_are_next_after_the_last_lesson(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    for one in lessons()[1:]:
        notebook.choose(one)
        notebook.solve(one)
    assert notebook.next is notebook.lesson_to_resume is lesson("1")
    notebook.solve(lesson("1"))
    again = Notebook(tmp_path)
    assert again.next is None
    assert again.lesson_to_resume is lesson("10")


def test_a_lesson_file_that_the_learner_changed_is_kept_until_a_reset(tmp_path: Path) -> None:
    notebook, one = Notebook(tmp_path), lesson("1")
    notebook.choose(one)
    assert notebook.file(one).read_text() == one.file
    notebook.file(one).write_text("mine")
    notebook.choose(one)
    assert notebook.file(one).read_text() == "mine"
    notebook.forget(one)
    assert notebook.file(one).read_text() == one.file


def test_hints_of_a_lesson_are_given_one_after_another(tmp_path: Path) -> None:
    one = lesson("4")
    assert [Notebook(tmp_path).hint(one) for _ in range(4)] == [0, 1, 2, 2]
    Notebook(tmp_path).forget(one)
    assert Notebook(tmp_path).hint(one) == 0


def test_manifests_are_applied_after_a_change(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    assert notebook.is_new("a")
    notebook.record_submission("a")
    assert not Notebook(tmp_path).is_new("a")
    notebook.record_submission(None)
    assert notebook.is_new("a")
    notebook.record_submission("a")
    notebook.cluster = 2
    assert notebook.is_new("a")


def test_the_learners_folder_is_found_from_its_subfolders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRALAB_LEARN", raising=False)
    monkeypatch.chdir(tmp_path)
    notebook = Notebook.here()
    assert notebook.folder == tmp_path / "dralab-learn"
    notebook.choose(lesson("1"))
    monkeypatch.chdir(notebook.folder)
    assert Notebook.here().folder == notebook.folder
    monkeypatch.setenv("DRALAB_LEARN", str(tmp_path / "elsewhere"))
    assert Notebook.here().folder == tmp_path / "elsewhere"


def test_a_damaged_state_is_reported_with_advice(tmp_path: Path) -> None:
    (tmp_path / ".learn.json").write_text("{")
    with pytest.raises(UserError, match=r"learn\.json: .*to begin again, remove that file"):
        Notebook(tmp_path)
