"""Models of which each piece is drawn: the outcomes' family, terms, and what else a model has."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_flymc import weighted
from tests.composed.grouped import BESIDE, TANGENT, one_factor
from tests.composed.predictors import RARE, TERMS, Writer
from tests.sweep.families import FAMILIES, Written

__all__ = ["Composed", "composed", "grouped"]

ENTRIES = {name: entry for each in FAMILIES.values() for name, entry in each.items()}
#: Those that the package does not have.
OWN = ("von-mises",)


@dataclass
class Composed:
    """A model, and the names of its pieces."""

    model: pm.Model
    pieces: tuple[str, ...]


def composed(seed: int, rare: str | None = None) -> Composed:
    """Compose a model, with a rare term if one is named; the same seed makes the same one."""
    rng = np.random.default_rng([20141104, seed])
    family = str(rng.choice([name for name in ENTRIES if name not in OWN]))
    terms = [str(each) for each in rng.choice(list(TERMS), rng.integers(1, 4))]
    terms += [rare] if rare else []
    extras = [str(each) for each in EXTRAS if rng.random() < 0.2]
    n = int(np.exp(rng.uniform(np.log(60), np.log(1500))))
    entry, data = ENTRIES[family], int(rng.integers(2**31))
    with pm.Model() as simulated:
        _write(entry, terms, extras, n, np.random.default_rng(data))
    observed = pm.draw(simulated["y"], random_seed=int(rng.integers(2**31)))
    with pm.Model() as model:
        _write(entry, terms, extras, n, np.random.default_rng(data), observed)
    return Composed(model, (family, f"{n} rows", *terms, *extras))


#: Beside terms.
EXTRAS = ("offset", "potential", "weights", "other likelihood", "deterministic", "free second")


def grouped(seed: int) -> tuple[Composed, pm.Model]:
    """Compose a model of one grouping factor, which local sweeps take if nothing else hinders.

    Returns it, and the same model as NUTS samples it best, with variables of the same names.
    """
    rng = np.random.default_rng([20261128, seed])
    family = str(rng.choice(TANGENT))
    terms = [str(each) for each in rng.choice(BESIDE, rng.integers(0, 3))]
    extras = [each for each in ("offset", "weights", "free second") if rng.random() < 0.25]
    n = int(np.exp(rng.uniform(np.log(10), np.log(600))))
    entry, data = ENTRIES[family], int(rng.integers(2**31))
    factor, written = partial(one_factor, plain=False), partial(one_factor, plain=True)
    with pm.Model() as simulated:
        _write(entry, terms, extras, n, np.random.default_rng(data), factor=factor)
    observed = pm.draw(simulated["y"], random_seed=int(rng.integers(2**31)))
    with pm.Model() as model:
        _write(entry, terms, extras, n, np.random.default_rng(data), observed, factor)
    with pm.Model() as plain:
        _write(entry, terms, extras, n, np.random.default_rng(data), observed, written)
    return Composed(model, (family, f"{n} rows", *terms, *extras)), plain


def _write(
    entry: Written,
    terms: list[str],
    extras: list[str],
    n: int,
    rng: np.random.Generator,
    observed: np.ndarray | None = None,
    factor: Callable[[Writer], Any] | None = None,
) -> None:
    rows = {name: np.resize(values, n) for name, values in entry.rows.items()}
    eta: Any = 0.1
    for i, term in enumerate(terms):
        eta = eta + 0.6 * (TERMS | RARE)[term](Writer(rng, n, f"t{i}_"))
    if factor is not None:
        eta = eta + factor(Writer(rng, n, "g_"))
    if "offset" in extras:
        eta = eta + 0.3 * rng.normal(size=n)
    if "deterministic" in extras:
        eta = pm.Deterministic("eta", eta)
    second: Any = entry.second
    if entry.free is not None and (second is None or "free second" in extras):
        second = entry.free("second")
    dist = entry.dist(eta, second, rows)
    if observed is None:
        pm.modelcontext(None).register_rv(dist, "y")
        return
    if "weights" in extras:
        weighted("y", dist, np.round(rng.exponential(size=n), 1), observed=observed)
    else:
        pm.modelcontext(None).register_rv(dist, "y", observed=observed)
    first = pm.modelcontext(None).free_RVs[0]
    if "potential" in extras:
        pm.Potential("potential", -0.5 * pt.sum((first - 0.3) ** 2))
    if "other likelihood" in extras:
        x = rng.normal(size=80)
        outcomes = (rng.random(80) < 0.4).astype(int)
        pm.Bernoulli("bought", logit_p=0.5 * first.flatten()[0] * x, observed=outcomes)
