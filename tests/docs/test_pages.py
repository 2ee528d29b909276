"""The README and the pages of the documentation: they run, and are up to date."""

import inspect
import re
import runpy
import subprocess
import sys

import matplotlib
import pytest

import pymc_flymc
from examples.support_table import README, with_table
from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice

ROOT = README.parent
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
#: Pages whose blocks are fragments, or definitions that tests of their own use.
NOT_RUN = {"README.md", "faq.md", "index.md", "own_likelihood.md", "tutorial_large_data.md"}
BLOCK = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.M | re.S)


def blocks(page):
    return BLOCK.findall(page.read_text())


def test_table_of_support_is_up_to_date():
    """If it is not: `python -m examples.support_table`."""
    assert README.read_text() == with_table(README.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert re.match("https?:", target) or (page.parent / target).exists(), target


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text()
    listed = set(re.findall(r"^(\w+)$", index, re.M))
    assert {page.stem for page in DOCS.glob("*.md")} - {"index"} == listed


def test_everything_public_is_in_the_reference():
    page = (DOCS / "api.md").read_text()
    for name in pymc_flymc.__all__:
        assert re.search(rf"^\.\. auto\w+:: {name}$", page, re.M), name


@pytest.mark.parametrize("name", pymc_flymc.__all__)
def test_everything_public_has_an_example_and_points_elsewhere(name):
    text = inspect.getdoc(getattr(pymc_flymc, name))
    assert "See Also\n--------" in text and "Examples\n--------" in text


def test_every_statistic_is_explained():
    page = (DOCS / "statistics.md").read_text()
    for step in (FireflyMH, FireflyHMC, FireflyMALA, FireflySlice):
        for name in step.stats_dtypes_shapes:
            assert f"`{name}`" in page or name in ("tune", "warning")


@pytest.mark.slow
def test_the_readme_prints_what_it_says(tmp_path):
    (code,) = blocks(README)
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    said = re.search(r"```text\n(.*?)```", README.read_text(), re.S)[1]
    assert (tmp_path / "posterior.png").exists()
    assert [line.split()[:3] for line in out.splitlines()] == [
        line.split()[:3] for line in said.splitlines()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name not in NOT_RUN and blocks(p)], ids=lambda page: page.name
)
def test_blocks_run(page, tmp_path, monkeypatch):
    """From top to bottom, in one session."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(DOCS / "data")
    matplotlib.use("Agg")
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page)))
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.slow
def test_the_tutorial_on_large_data_runs(tmp_path):
    """Workers of a cluster import the script."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(DOCS / "tutorial_large_data.md")))
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True)
