"""Laws of the Taylor bound with a radius for each part: below the likelihood, collapsing, tight."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_flymc import FireflyHMC, Taylor
from pymc_flymc.bounds import TaylorInParts
from pymc_flymc.graphs.parts import Parts
from pymc_flymc.likelihoods import outcome
from tests.support.native import density_and_gradient, row_force, row_predictors

N, GROUPS, OTHERS = 300, 7, 4
FAMILIES = ["poisson", "probit", "cloglog", "logistic", "binomial"]


def simulated(family):
    """Intercepts and slopes, a crossed factor, an effect twice in a row, and extreme predictors."""
    rng = np.random.default_rng(3)
    group, other = rng.integers(0, GROUPS, N), rng.integers(0, OTHERS, (2, N))
    x = rng.normal(size=(N, 2))
    x[0], x[1, 0], x[2, 0] = [30.0, -30.0], 0.0, 1e3
    eta = 0.3 + 0.5 * rng.normal(size=GROUPS)[group] + np.clip(x @ [0.4, -0.2], -2.0, 2.0)
    # Rows far out of line with the others, whose expansions are steep.
    if family == "poisson":
        y = rng.poisson(np.exp(eta))
        y[3] = 40
    elif family == "binomial":
        y = rng.binomial(9, 1.0 / (1.0 + np.exp(-eta)))
    else:
        y = (rng.logistic(size=N) < eta).astype(int)
    return group, other, x, y


def effects_model(family):
    group, other, x, y = simulated(family)
    with pm.Model() as model:
        mu, beta = pm.Normal("mu", 0.0, 1.0), pm.Normal("beta", 0.0, 0.1, shape=2)
        tau = pm.HalfNormal("tau", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=GROUPS)
        slope = pm.Normal("slope", 0.0, 0.3, shape=GROUPS)
        skill = pm.Normal("skill", 0.0, 0.5, shape=OTHERS)
        eta = mu + x @ beta + (tau * z)[group] + slope[group] * x[:, 1]
        eta = eta + skill[other[0]] - skill[other[1]]  # which may be the same
        if family == "poisson":
            pm.Poisson("y", mu=pm.math.exp(eta), observed=y)
        elif family == "probit":
            pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=y)
        elif family == "cloglog":
            pm.Bernoulli("y", p=1.0 - pm.math.exp(-pm.math.exp(eta)), observed=y)
        elif family == "binomial":
            pm.Binomial("y", n=9, logit_p=eta, observed=y)
        else:
            pm.Bernoulli("y", logit_p=eta, observed=y)
    return model


@pytest.fixture(scope="module", params=FAMILIES)
def built(request):
    """Step with few coefficients, whose blocks are written out: see `many` for the others."""
    return step_of(request.param)


def step_of(family):
    with effects_model(family) as model:
        step = FireflyHMC(bound=TaylorInParts(GROUPS * 2 + OTHERS))
    return model, step


def arguments(step, w):
    """Predictor and sums of all rows."""
    eta = np.empty((N, 3))
    row_predictors(step.target.data.rows, w, np.arange(N), 0, N, eta)
    return eta


def compiled_gap(step):
    """Gaps of all rows as the bound's own graph says, without the factors' floor at zero."""
    (part,) = step.target.parts
    eta, constants, shared = pt.dmatrix("eta"), pt.dmatrix("constants"), pt.dvector("shared")
    likelihood = part.likelihood
    gap = part.bound.gap(
        likelihood, [eta[:, i] for i in range(3)], constants, [shared[0], shared[1]]
    )
    y = outcome(likelihood, [constants[:, i] for i in (3, *range(5, constants_of(step).shape[1]))])
    log_l = likelihood.log_likelihood([eta[:, 0]], y)
    mode = pytensor.compile.Mode(linker="py", optimizer="fast_compile")
    return pytensor.function([eta, constants, shared], [log_l, gap], mode=mode)


def constants_of(step):
    return step.target.data.rows.constants


def log_prior(model, step, theta):
    return model.compile_logp(vars=model.free_RVs)(step._layout.unravel(theta))


def check(model, step, gap_of, theta):
    """Check the bound at theta; return the gaps, and how many parts are beyond their limits."""
    target, p = step.target, step.target.graph.n_coefficients
    w = np.empty(target.n_slopes)
    log_density = target.density(theta, target.statistics, w)
    eta = arguments(step, w)
    log_l, gap = gap_of(eta, constants_of(step), w[p : p + 2])
    limit = gap - 0.0
    at = constants_of(step)[:, 4]
    u = eta[:, 0] - at
    size = 1.0 + np.abs(log_l) + np.abs(eta[:, 0]) + np.abs(at) + (1.0 + np.exp(at)) * u**2
    rounding = 64 * np.finfo(float).eps * size
    assert np.all(limit >= -rounding)
    by_row = np.sum(log_l - gap)
    total = np.sum(np.abs(log_l)) + np.sum(np.abs(gap))
    collapsed = log_density - log_prior(model, step, theta)
    assert collapsed == pytest.approx(by_row, abs=1e-10 * total)
    q = target.data.rows.n_sparse
    return gap, np.count_nonzero(w[p + 2 + q :]), w[p + 1] > 0.0


def far_theta(step, v, scale, which):
    geometry = step.target.geometry
    direction = np.asarray(v) * (np.arange(len(v)) == which if which < len(v) else 1.0)
    return geometry.unwhiten(scale * direction)


D = 4 + 2 * GROUPS + OTHERS


@settings(max_examples=60, deadline=None)
@given(
    v=st.lists(st.floats(-1, 1), min_size=D, max_size=D),
    scale=st.sampled_from([0.01, 1.0, 3.0, 10.0, 30.0, 100.0]),
    which=st.integers(0, 2 * D),
)
def test_bound_is_below_the_likelihood_and_collapses(built, v, scale, which):
    """At draws of the posterior and far out, in all directions or along one."""
    model, step = built
    theta = far_theta(step, v, scale, which)
    with np.errstate(over="ignore"):
        if not np.isfinite(
            step.target.density(theta, step.target.statistics, np.empty(step.target.n_slopes))
        ):
            return
        check(model, step, compiled_gap_of(step), theta)


_gaps = {}


def compiled_gap_of(step):
    return _gaps.setdefault(id(step), compiled_gap(step))
