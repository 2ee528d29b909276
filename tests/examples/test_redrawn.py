"""Figures are redrawn from the CSV files beside them, without measuring again."""

import importlib
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from examples.benchmarks import groups, real, rows_against_n
from examples.benchmarks.real_models import MODELS
from examples.paper.__main__ import main as paper

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["kernels", "mixing", "softmax_bounds", "superbatches"])
def test_benchmarks(name, tmp_path, monkeypatch):
    shutil.copy(ROOT / "docs/figures" / f"{name}.csv", tmp_path)
    option = "--output" if name == "softmax_bounds" else "--figure"
    figure = tmp_path / f"{name}.png"
    monkeypatch.setattr("sys.argv", ["", "--redraw", option, str(figure)])
    importlib.import_module(f"examples.benchmarks.{name}").main()
    assert figure.stat().st_size > 0


@pytest.mark.parametrize("program", [groups, rows_against_n])
def test_tables_of_the_page_are_what_programs_print(program, tmp_path, monkeypatch, capsys):
    name = program.__name__.split(".")[-1]
    shutil.copy(ROOT / f"docs/figures/{name}.csv", tmp_path)
    figure = tmp_path / f"{name}.png"
    monkeypatch.setattr("sys.argv", ["", "--redraw", "--output", str(figure)])
    program.main()
    assert figure.stat().st_size > 0
    assert capsys.readouterr().out in (ROOT / "docs/benchmarks.md").read_text()


def test_pictures_of_rows_against_n_are_described_by_its_table():
    points = pd.read_csv(ROOT / "docs/figures/rows_against_n.csv")
    ours = points[points["method"] == "FireflyMH()"].set_index("N")["rows per effective draw"]
    most, fewest = f"falls from {ours[1_000]:.0f} ", f" to {ours[10_000_000]:.1f} at "
    for page in ("README.md", "docs/index.md", "docs/benchmarks.md"):
        described = re.search(r"!\[(.*)\]\(.*rows_against_n.png\)", (ROOT / page).read_text())[1]
        assert most in described and fewest in described, page


@pytest.mark.parametrize("name", ["cifar", "mnist", "molecules"])
def test_figure_4(name, tmp_path):
    shutil.copy(ROOT / f"docs/figures/paper_figure_4_{name}.csv", tmp_path)
    paper([name, "--redraw", "--output", str(tmp_path)])
    assert (tmp_path / f"paper_figure_4_{name}.png").stat().st_size > 0


def test_real_data(tmp_path, monkeypatch):
    """The figure is drawn of the numbers in the page's table, whose names are the program's."""
    shutil.copy(ROOT / "docs/figures/real_data.csv", tmp_path)
    figure = tmp_path / "real_data.png"
    monkeypatch.setattr("sys.argv", ["", "--redraw", "--figure", str(figure)])
    real.main()
    assert figure.stat().st_size > 0
    page = (ROOT / "docs/benchmarks.md").read_text().split("### Real data")[1].split("\n## ")[0]
    line = r"^\| ([^|]+) \| [\d,]+ \| ([^|]+) \| [^|]+ \|[^|]*\| ([^|]+) \|$"
    lines = re.findall(line, page, re.M)
    drawn = {
        name: [real.cell(found).replace(",", "") for found in line.values()]
        for name, line in real.read_points(figure.with_suffix(".csv")).items()
    }
    assert drawn.keys() <= MODELS.keys()
    assert drawn == {
        name: [cell.strip("†").replace(",", "") for cell in cells] for name, *cells in lines
    }
