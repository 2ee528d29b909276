"""What a release says of itself."""

import re
import tomllib
from pathlib import Path

import pymc_flymc

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_versions_agree():
    """Of the package, its citation, its changelog and the wheel that the README installs."""
    version = PROJECT["version"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == version
    assert re.search(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version
    for page in ("README.md", "docs/installation.md"):
        wheels = re.findall(r"pymc_flymc-([\d.]+)-py3", (ROOT / page).read_text())
        assert wheels == [version], page


def test_citation_is_that_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"license: {PROJECT['license']}" in citation
    assert "cff-version: 1.2.0" in citation and '"Firefly Monte Carlo' in citation
    assert 'title: "pymc-flymc:' in citation


def test_annotations_are_for_users():
    assert (Path(pymc_flymc.__file__).parent / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_checks_run_the_readme_s_command():
    """`.ci/run` installs and tests as the README says."""
    readme, checks = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    assert '.venv/bin/pip install -e ".[test]" && .venv/bin/python -m pytest' in readme
    assert '-e ".[test]"' in checks and '"$python" -m pytest' in checks
