"""Parts of the proof, as processes of their own do them."""

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytensor

from tests.proof.calibration import test_model
from tests.proof.combinations import combination_of
from tests.proof.drift import DRIFT, largest_drift, started_chain
from tests.proof.equilibrium import test_combination
from tests.proof.sequential import Verdict
from tests.sweep.models import MODELS
from tests.sweep.reference import Posterior, posterior_of

__all__ = ["Row", "calibrate", "drift", "prove"]

pytensor.config.mode = "FAST_COMPILE"  # PyMC's own functions; those of steps are native
logging.getLogger("pymc").setLevel(logging.ERROR)


class Row(NamedTuple):
    """A row of the table."""

    kind: str
    what: str
    verdict: str
    found: str
    seconds: float


def prove(names: list[str], seed: int, chains: int, alarm: float) -> list[Row]:
    """Test combinations of one model."""
    model = MODELS["/".join(names[0].split("/")[:2])]
    known: list[Posterior] = []

    def test(name: str) -> Verdict | str:
        if not known:
            known.append(posterior_of(model.whole))
        return test_combination(combination_of(name), known[0], chains, alarm, seed)

    return [_row("exact draws", name, lambda name=name: _said(test(name))) for name in names]


def calibrate(name: str, seed: int, sets: int, alarm: float) -> list[Row]:
    """Test the calibration of a model."""
    return [_row("calibration", name, lambda: _said(test_model(name, seed, sets, alarm)))]


def drift(name: str, seed: int, transitions: int) -> list[Row]:
    """Look for drift in a chain."""

    def look() -> tuple[str, str]:
        rng = np.random.default_rng([seed, 0])
        worst = largest_drift(started_chain(name, rng), rng, transitions)
        return "FAILED" if worst > DRIFT else "no drift", f"{worst:.1e} after {transitions:.0e}"

    return [_row("drift", name, look)]


def _row(kind: str, what: str, test: Callable[[], tuple[str, str]]) -> Row:
    began = time.process_time()
    try:
        verdict, found = test()
    except Exception as error:
        verdict, found = "ERROR", f"{type(error).__name__}: {error}".splitlines()[0][:100]
    return Row(kind, what, verdict, found, round(time.process_time() - began, 1))


def _said(found: Verdict | str) -> tuple[str, str]:
    if isinstance(found, str):
        return "refused", found[:60]
    of = f"p = {found.p_values.min():.2g} of {len(found.p_values)}, {found.draws} draws"
    return "FAILED" if found.failed else "exact", of
