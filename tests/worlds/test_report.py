"""``dralab plan -o html`` and ``-o csv``: reports and tables of answers."""

import csv
import io
import re
from pathlib import Path

import pytest
from dra_cli.commandline import run
from dra_scheduler.plan.charts import Bar, Line, Part, Point, draw_bars, draw_scatter, draw_steps
from dra_scheduler.plan.questions.catalog import QUESTIONS
from dra_shared.mediatypes import CSV, HTML, JSON, choose
from dralab import World

_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 3}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
  containers: [{name: main, image: train, resources: {claims: [{name: gpus}]}}]
"""
_FLEET = (
    "pools: [{name: node, count: 2, gpus: 8xH100-SXM5-80GB, price: 100}, {name: t, gpus: 4xT4, price: 8}]\n"
)


def _ask(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    (folder / "pods.yaml").write_text(_POD)
    (folder / "fleet.yaml").write_text(_FLEET)
    question, *rest = words
    run("plan", [question, *rest, "--from", str(folder / "fleet.yaml")])
    return capsys.readouterr().out


def _headings(page: str) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page)


def test_an_html_report_begins_with_the_answer_and_ends_with_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = _ask(tmp_path, capsys, "fit", str(tmp_path / "pods.yaml"), "--count", "6", "-o", "html")
    assert page.index("Do 6 copies of the pods of pods.yaml fit?") < page.index("No: 5 of 6 pods fit.")
    assert _headings(page) == [
        "Inputs",
        "Cost",
        "Utilisation by model",
        "Stranded devices",
        "Why default/train-6 does not fit",
        "Where the pods go",
        "Picture",
    ]
    assert re.search("<dt>World</dt><dd>[^<]*fleet.yaml</dd>", page)
    # Both H100 nodes use six of eight devices, and the node of T4s three of four.
    assert "All nodes cost 208. 52 of it pays for devices that nothing uses" in page
    assert "75% · 12 of 16" in page
    assert "75% · 3 of 4" in page
    # The others are too few for a pod with three devices.
    assert "5 of 20 free devices are stranded" in page


def test_an_html_report_refers_to_no_other_file_or_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = _ask(tmp_path, capsys, "pack", "-o", "html")
    assert not re.search(r"src=|href=|url\(|<script|@import", page)


def test_a_purchase_reports_the_new_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["nodes", str(tmp_path / "pods.yaml"), "--count", "7", "--catalog", str(tmp_path / "fleet.yaml")]
    page = _ask(tmp_path, capsys, *words, "-o", "html")
    assert "<dt>Catalogue</dt>" in page
    assert "of which 16 for new nodes" in page
    assert "What to buy" in _headings(page)


def test_csv_has_a_row_for_each_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _ask(tmp_path, capsys, "fit", str(tmp_path / "pods.yaml"), "--count", "6", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 6
    assert rows[0]["devices"].count("gpu.nvidia.com/") == 3
    assert not rows[-1]["node"]
    assert "cannot allocate all claims" in rows[-1]["message"]


def test_world_writes_the_same_report_as_the_command() -> None:
    page = World.describe(1, "8xH100-SXM5-80GB").report("drain", nodes=["node-0"])
    assert "Where do the pods of node-0 go if it is drained?" in page
    assert "No pod has to move." in page


def test_texts_of_objects_are_escaped() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c"}]},
    }
    world = World.describe(1, "1xT4")
    page = world.report("fit", objects=pod, source="<script>alert(1)</script>")
    assert "&lt;script&gt;" in page
    assert "<script" not in page


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_planner_question_has_a_phrase_and_a_headline_for_reports(name: str) -> None:
    question = QUESTIONS[name]
    assert question.phrase is not None
    assert question.headline is not None


def test_bars_of_a_report_have_the_same_scale() -> None:
    plot = draw_bars("t", [Bar("a", [Part("used", 1, "x")]), Bar("b <", [Part("used", 2, "y")])])
    first, second = _widths(plot)
    assert second == pytest.approx(2 * first, abs=0.2)
    assert "b &lt;" in plot


def _widths(plot: str) -> list[float]:
    return [float(width) for width in re.findall(r'width="([\d.]+)"', plot)]


def test_points_of_a_scatter_plot_are_placed_by_both_values() -> None:
    points = [Point(0, 0, "origin"), Point(10, 20, "top", "A", (10, 20))]
    plot = draw_scatter("t", points, ("cost", "wait"), points)
    (x0, y0), (x1, y1) = ((float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', plot))
    assert (x0 < x1, y0 > y1) == (True, True)
    assert (plot.count('class="front"'), plot.count('class="spread"')) == (1, 1)


def test_step_charts_of_a_report_have_a_legend() -> None:
    plot = draw_steps("t", [Line("H100", [(0, 0.5), (10, 1.0)]), Line("T4", [])], ("seconds", "in use"))
    assert plot.count('class="key"') == 2
    assert "H704.0" in plot


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [("", JSON), ("*/*", JSON), ("text/html,application/json;q=0.9", HTML), ("text/csv", CSV)],
)
def test_the_first_known_media_type_is_chosen(accept: str, chosen: str) -> None:
    assert choose(accept) == chosen
