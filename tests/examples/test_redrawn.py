"""Figures are redrawn from the CSV files beside them, without measuring again."""

import importlib
import re
import shutil
from pathlib import Path

import pytest

from examples.benchmarks import real
from examples.benchmarks.real_models import MODELS
from examples.paper.__main__ import main as paper

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name", ["kernels", "mixing", "rows_against_n", "softmax_bounds", "superbatches"]
)
def test_benchmarks(name, tmp_path, monkeypatch):
    shutil.copy(ROOT / "docs/figures" / f"{name}.csv", tmp_path)
    option = "--output" if name in ("rows_against_n", "softmax_bounds") else "--figure"
    figure = tmp_path / f"{name}.png"
    monkeypatch.setattr("sys.argv", ["", "--redraw", option, str(figure)])
    importlib.import_module(f"examples.benchmarks.{name}").main()
    assert figure.stat().st_size > 0


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
    lines = re.findall(r"^\| ([^|]+) \| [\d,]+ \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", page, re.M)
    drawn = {
        name: [real.cell(found).replace(",", "") for found in line.values()]
        for name, line in real.read_points(figure.with_suffix(".csv")).items()
    }
    assert drawn.keys() <= MODELS.keys()
    assert drawn == {
        name: [cell.strip("†").replace(",", "") for cell in cells] for name, *cells in lines
    }
