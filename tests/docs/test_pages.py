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
from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice, extending

ROOT = README.parent
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
#: Pages whose blocks are fragments, and those that are run in a process of their own.
OWN_PROCESS = {"README.md", "own_likelihood.md", "tutorial_large_data.md"}
#: Data, and variables of a model, that fragments speak of.
DATA = """
import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from pymc_flymc import FireflyMH

rng = np.random.default_rng(1)
frame = pd.DataFrame(rng.normal(size=(500, 2)), columns=["age", "income"])
frame["school"], frame["bought"] = rng.choice(["a", "b"], 500), rng.random(500) < 0.5
columns, S = ["age", "income"], frame[["age", "income"]].to_numpy()
X, y = S, frame["bought"].to_numpy()
"""
MODEL = """
model = pm.Model()
model.__enter__()
tau, total = pm.HalfNormal("tau", 1), pm.HalfNormal("total", 1)
alpha, beta = pm.Normal("alpha", 0, tau), pm.Normal("beta", 0, 1, shape=2)
a = pm.Normal("a", 0, 1, shape=2)
pm.Bernoulli("y", logit_p=alpha + X @ beta + a[pd.factorize(frame["school"])[0]], observed=y)
"""
FRAGMENTS = {"faq.md": DATA + MODEL, "index.md": DATA}
NOT_RUN = FRAGMENTS.keys() | OWN_PROCESS
BLOCK = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.M | re.S)


def blocks(page):
    return BLOCK.findall(page.read_text())


@pytest.mark.slow
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


def test_everything_for_extensions_has_an_example_and_is_in_the_reference():
    page = (DOCS / "own_likelihood.md").read_text()
    examples = page.split("## Where there is an example")[1].split("\n## ")[0]
    for name in extending.__all__:
        assert re.search(rf"^\.\. auto\w+:: {name}$", page, re.M), name
        assert f"`{name}`" in examples, name
    for file in re.findall(r"`(pymc_flymc/[^`]*)`", examples):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("name", pymc_flymc.__all__)
def test_everything_public_has_an_example_and_points_elsewhere(name):
    text = inspect.getdoc(getattr(pymc_flymc, name))
    assert "See Also\n--------" in text and "Examples\n--------" in text


def test_every_folder_of_the_package_is_explained():
    page = (DOCS / "how_it_works.md").read_text().split("## Where things are in the code")[1]
    folders = {path.parent.name for path in (ROOT / "pymc_flymc").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == folders


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
@pytest.mark.parametrize("page", sorted(OWN_PROCESS - {"README.md"}))
def test_blocks_run_in_a_process(page, tmp_path):
    """Workers of a cluster import the script; a likelihood is registered for good."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(DOCS / page)))
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(FRAGMENTS))
def test_fragments_run(page, tmp_path):
    """Each by itself, after what it speaks of."""
    for block in blocks(DOCS / page):
        code = FRAGMENTS[page] + block
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
