"""The stories run, converge, and come to the decision that the data were made for."""

import re
import runpy
from pathlib import Path

import pytest

import examples.stories

FOLDER = Path(examples.stories.__file__).parent
#: What each prints at the end.
DECISIONS = {
    "detection_limit": r"True\s+\S+\s.*False\s+\S+\s.*False$",
    "examination": r"questions to drop: \[ *0 +1\b.*of those decided, 9\d % rightly",
    # One of the three clinics is one of the three that are worst.
    "frailty": r"visit: \[[^\]]*?\b(\d+)\b[^\]]*\] - worst in truth: \[[^\]]*\b\1\b",
    "offers": r"-> basic .*-> family .*-> pro ",
    "panel": r"training pays with a chance of 1.00: pay",
    "standard_errors": r"in the country: .* do not pay .*\bin the city: .* pay ",
    "tournament": r"player (\d+): .*best in truth: \1\b",
}
#: It takes a few seconds, imports and compilation aside.
SHORT = ("offers",)


def test_each_story_has_a_decision():
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(DECISIONS)


@pytest.mark.parametrize("name", DECISIONS)
def test_stories_are_short(name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) < 60


@pytest.mark.parametrize(
    "name",
    [
        name if name in SHORT else pytest.param(name, marks=pytest.mark.slow)
        for name in sorted(DECISIONS)
    ],
)
def test_stories(name, capsys, caplog, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    if name == "panel":
        pytest.importorskip("bambi")
    runpy.run_module(f"examples.stories.{name}", run_name="__main__")
    out = capsys.readouterr().out
    assert re.search(DECISIONS[name], out, re.DOTALL), out
    assert "rhat" not in caplog.text and "effective sample size" not in caplog.text
