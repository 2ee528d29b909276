"""What kernels run is compared with what was read: mutants are refused by this alone."""

from copy import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import (
    FireflyHMC,
    FireflyMH,
    FireflySlice,
    JaakkolaJordan,
    Taylor,
    UnsupportedModelError,
)
from pymc_flymc.agreement.compiled import check_compiled
from pymc_flymc.bounds import exact_factor
from pymc_flymc.graphs.compilation import compile_log_factor_gradient
from pymc_flymc.kernels.native import read_only
from pymc_flymc.sampling import candidates
from pymc_flymc.steps import setup
from tests.support import patches

N = 70
RNG = np.random.default_rng(11)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
GROUP = RNG.integers(0, 5, N)
BINARY, COUNTS = RNG.integers(0, 2, N), RNG.poisson(2.0, N)
REAL = RNG.standard_t(4, N)


def predictor():
    return X @ pm.Normal("b", [0.1, 0.2], 1.0)


def logistic():
    pm.Bernoulli("y", logit_p=predictor(), observed=BINARY)


def groups():
    eta = predictor() + pm.Normal("a", 0.0, 1.0, shape=5)[GROUP]
    pm.Poisson("y", mu=pm.math.exp(eta), observed=COUNTS)


def noise():
    s = pm.HalfNormal("s", 1.0)
    pm.StudentT("y", nu=4.0, mu=predictor(), sigma=s, observed=REAL)


def several():
    eta = predictor()
    pm.Bernoulli("y", logit_p=eta, observed=BINARY)
    pm.Poisson("k", mu=pm.math.exp(eta), observed=COUNTS)


def shape():
    alpha = pm.HalfNormal("alpha", 2.0)
    pm.Gamma("y", alpha=alpha, beta=alpha / pm.math.exp(predictor()), observed=np.abs(REAL) + 0.1)


STEPS = {
    "joint": (logistic, lambda: FireflyMH(kernel="joint")),
    "joint, scaled": (shape, lambda: FireflyMH(kernel="joint")),
    "surrogate": (logistic, lambda: FireflyMH(kernel="surrogate")),
    "Metropolis": (logistic, lambda: FireflyMH(kernel="metropolis", bound=JaakkolaJordan())),
    "Hamiltonian": (noise, FireflyHMC),
    "in parts": (groups, lambda: FireflyHMC(bound=Taylor())),
    "slices, several": (several, FireflySlice),
    "all rows": (logistic, lambda: FireflyHMC(bound=None)),
}


@cache
def built(name):
    """Return what the check of a step is given."""
    model, step = STEPS[name]
    found = []
    with pytest.MonkeyPatch.context() as patch, patches.any_size(), pm.Model():
        patch.setattr(setup, "check_compiled", lambda *arguments: found.append(arguments))
        patch.setattr(candidates, "SHARES", (0.2,))  # exact rows of surrogates
        model()
        step()
    return found[0]


def with_rows(target, change):
    """Change the rows of a likelihood, the last one."""
    mutant, data = copy(target), copy(target.data)
    *others, part = data.parts
    part = change(part)
    data.rows = data.rows._replace(parts=(*others, part)) if others else part
    mutant.data = data
    return mutant


def with_constants(change):
    def mutant(target):
        return with_rows(
            target, lambda rows: rows._replace(constants=read_only(change(rows.constants)))
        )

    return mutant


def with_statistics(change):
    def mutant(target):
        if not target.statistics.size:
            return target
        out = copy(target)
        *others, last = target.parts
        out.parts = (*others, replace(last, statistics=change(last.statistics.copy())))
        return out

    return mutant


def forget_one(statistics):
    """All but the constant say how the density changes."""
    statistics[1 + np.argmax(np.abs(statistics[1:]))] = 0.0
    return statistics


def scaled_row(constants):
    """One per cent of a row's constants."""
    factors = np.ones((N, 1))
    factors[np.argmax(np.abs(constants[:, 0]))] = 1.01
    return constants * factors


def another_row(constants):
    """Give the last row what is another's."""
    other = next(i for i in range(N) if (constants[i] != constants[-1]).any())
    return np.concatenate([constants[:-1], constants[other : other + 1]])


def with_rates(target):
    """A sum of rates that is not that of the rows."""

    def change(rows):
        return rows._replace(totals=read_only(rows.totals * (1.0 + 1.0 / N)))

    return with_rows(target, change)


def with_another_row(target):
    def change(rows):
        changed = rows.X.copy()
        changed[5] = changed[6]
        return rows._replace(X=read_only(changed))

    return with_rows(target, change)


MUTANTS = {
    "constants shifted": with_constants(lambda c: np.roll(c, 1, axis=0)),
    "columns swapped": with_constants(lambda c: np.roll(c, 1, axis=1)),
    "one per cent of a row": with_constants(scaled_row),
    "the last row's": with_constants(another_row),
    "a statistic left out": with_statistics(forget_one),
    "a row in the statistics twice": with_statistics(lambda s: s * (1.0 + 1.0 / N)),
    "a row of the design": with_another_row,
    "a row's rates twice": with_rates,
}


def test_exact_rows_of_a_surrogate():
    target, *known = built("surrogate")
    changed = copy(target)
    changed.data = copy(target.data)
    exact = target.data.exact
    changed.data.exact = exact._replace(constants=read_only(np.roll(exact.constants, 1, axis=0)))
    with pytest.raises(UnsupportedModelError, match="is compiled for sampling"):
        check_compiled(changed, *known)


@pytest.mark.slow
def test_factors_with_gradients():
    """They are other functions than those without, and are compared, too."""
    target, *known = built("Hamiltonian")
    (part,) = target.parts
    changed = copy(target)
    other = exact_factor(part.likelihood, part.bound)
    changed.factor_gradients = [compile_log_factor_gradient(other)]
    with pytest.raises(UnsupportedModelError, match="is compiled for sampling"):
        check_compiled(changed, *known)


#: Each step of the quick suite is compiled for a second; these take ten.
CASES = [
    pytest.param(name, marks=pytest.mark.slow if name in ("slices, several", "in parts") else ())
    for name in STEPS
]


@pytest.mark.parametrize("name", CASES)
def test_as_built(name):
    check_compiled(*built(name))


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", CASES)
def test_mutants(name, mutant):
    target, *known = built(name)
    changed = MUTANTS[mutant](target)
    rows, before = changed.data.parts[-1], target.data.parts[-1]
    same = [np.array_equal(getattr(rows, k), getattr(before, k)) for k in before._fields]
    if all(same) and np.array_equal(changed.statistics, target.statistics):
        pytest.skip("what it changes is not there")
    with pytest.raises(UnsupportedModelError, match="is compiled for sampling"):
        check_compiled(changed, *known)


@pytest.mark.slow
def test_nearly_singular_covariances_are_compared():
    """Few rows inform this one: at the points compared the log density is below -1e10."""
    n, rng = 300, np.random.default_rng(0)
    group, x = rng.integers(0, 20, n), rng.normal(size=n)
    with pm.Model():
        sds = pm.Exponential.dist(1.0)
        chol, *_ = pm.LKJCholeskyCov("c", n=2, eta=2.0, sd_dist=sds)
        a = pm.MvNormal("a", np.zeros(2), chol=chol, shape=(20, 2))
        y = rng.integers(0, 2, n)
        pm.Bernoulli("y", logit_p=a[group, 0] + a[group, 1] * x, observed=y)
        FireflyHMC(bound=None)
