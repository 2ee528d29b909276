"""Truncated and skew noise, scales that differ by row, and angles: reading, limits, exactness."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import FireflyHMC, FireflyMH, Taylor, UnsupportedModelError
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import (
    NormalScales,
    SkewNormal,
    StudentTScales,
    TruncatedNormal,
    VonMises,
)
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.limits import limit_beyond
from tests.support.readings import compare
from tests.support.series import Series
from tests.support.steps import drive, step_of

N = 40
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
Y = X @ [0.5, 0.4] + 0.7 * RNG.normal(size=N)
ABOVE, LOWER, SE = np.abs(Y), np.linspace(-0.5, 0.0, N), np.linspace(0.2, 2.0, N)
#: Degrees of freedom.
NU = 5.0
ANGLES = np.angle(np.exp(1j * Y))
exp, sqrt = pm.math.exp, pm.math.sqrt


def eta():
    return X @ pm.Normal("beta", 0.0, 2.0, shape=2)


def tau():
    return X @ pm.Normal("gamma", 0.0, 1.0, shape=2)


def sigma():
    return pm.HalfNormal("sigma", 1.0)


#: What a user may write, with the family.
WRITTEN = {
    "truncated": (
        lambda: pm.TruncatedNormal("y", eta(), sigma(), lower=0.0, observed=ABOVE),
        TruncatedNormal,
    ),
    "from above": (
        lambda: pm.TruncatedNormal("y", eta(), sigma(), upper=-LOWER, observed=-ABOVE),
        TruncatedNormal,
    ),
    "pm.Truncated": (
        lambda: pm.Truncated("y", pm.Normal.dist(eta(), 0.7), lower=LOWER, observed=ABOVE),
        TruncatedNormal,
    ),
    "skew": (
        lambda: pm.SkewNormal("y", mu=eta(), sigma=sigma(), alpha=pm.Normal("alpha"), observed=Y),
        SkewNormal,
    ),
    "a known skewness": (
        lambda: pm.SkewNormal("y", mu=eta(), sigma=sigma() * SE, alpha=2.0, observed=Y),
        SkewNormal,
    ),
    "scales": (lambda: pm.Normal("y", eta(), exp(tau()), observed=1e3 * Y), NormalScales),
    "squared scales": (
        lambda: pm.Normal("y", eta(), sqrt(SE**2 + exp(tau()) ** 2), observed=Y),
        NormalScales,
    ),
    "standard errors": (
        lambda: pm.Normal("y", eta(), (SE**2 + sigma() ** 2) ** 0.5, observed=Y),
        NormalScales,
    ),
    "log-normal": (
        lambda: pm.LogNormal("y", eta(), SE * exp(tau()), observed=np.exp(Y)),
        NormalScales,
    ),
    "heavy tails": (
        lambda: pm.StudentT("y", nu=4, mu=eta(), sigma=exp(tau()), observed=1e3 * Y),
        StudentTScales,
    ),
    "heavy tails and standard errors": (
        lambda: pm.StudentT("y", nu=NU, mu=eta(), sigma=sqrt(SE**2 + sigma() ** 2), observed=Y),
        StudentTScales,
    ),
    "Cauchy": (lambda: pm.Cauchy("y", eta(), SE * exp(tau()), observed=Y), StudentTScales),
    "angles": (lambda: pm.VonMises("y", eta(), 2.5, observed=ANGLES), VonMises),
}


def model_of(write):
    with pm.Model() as model:
        write()
    return model


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name, any_size):
    """Rows and what is left are the model's own density, but for a constant."""
    write, family = WRITTEN[name]
    model = model_of(write)
    reading = read_model(model)
    (regression,) = reading.regressions
    assert isinstance(regression.likelihood, family)
    compare(model, reading)


BAD = {
    "two limits": (
        lambda: pm.TruncatedNormal("y", eta(), 1.0, lower=-9.0, upper=9.0, observed=Y),
        "must have one limit",
    ),
    "a free limit": (
        lambda: pm.TruncatedNormal("y", eta(), 1.0, lower=pm.Normal("l"), observed=Y),
        "one that is data",
    ),
    "below the limit": (
        lambda: pm.TruncatedNormal("y", eta(), 1.0, lower=0.0, observed=-ABOVE),
        "not within the limit of truncation",
    ),
    "a skewness by rows": (
        lambda: pm.SkewNormal("y", mu=eta(), alpha=X[:, 1], observed=Y),
        "a scalar alpha",
    ),
    "no exponential": (
        lambda: pm.Normal("y", eta(), 1.0 + exp(tau()), observed=Y),
        r"sigma=pm.math.exp\(tau\)",
    ),
    "of heavy tails, neither": (
        lambda: pm.Cauchy("y", eta(), 1.0 + exp(tau()), observed=Y),
        r"sigma=pm.math.exp\(tau\)",
    ),
    "free degrees of freedom": (
        lambda: pm.StudentT("y", nu=sigma(), mu=eta(), sigma=exp(tau()), observed=Y),
        r"nu of the observed variable 'y' is free.*nu=4\.0, or sigma as one number",
    ),
    "degrees of freedom by rows": (
        lambda: pm.StudentT("y", nu=SE, mu=eta(), sigma=1.0, observed=Y),
        "a scalar nu",
    ),
    "not finite": (
        lambda: pm.Normal("y", eta(), exp(tau()), observed=np.full(N, np.inf)),
        "not finite",
    ),
    "a free concentration": (
        lambda: pm.VonMises("y", eta(), sigma(), observed=ANGLES),
        "kappa of the observed variable 'y' is free",
    ),
    "more than a turn": (
        lambda: pm.VonMises("y", eta(), 1.0, observed=5.0 * Y),
        "angles between -pi and pi",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    write, message = BAD[name]
    with pytest.raises((UnsupportedModelError, ValueError), match=message):
        read_model(model_of(write))


WITH_BOUNDS = [name for name in WRITTEN if name not in ("pm.Truncated", "angles")]


#: The graph of "heavy tails" with errors added; they take long to compile.
LONG = "heavy tails and standard errors", "Cauchy"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in WITH_BOUNDS],
)
@pytest.mark.slow_cases(
    "scales", "heavy tails", "truncated", "skew", "from above", "a known skewness"
)
def test_bounds(name):
    (regression,) = read_model(model_of(WRITTEN[name][0])).regressions
    check_bound(Taylor(), regression.likelihood, regression.y)


N_PLACES = 20_000


@pytest.mark.parametrize("nu", [0.5, 4.0, 50.0])
def test_limits_of_heavy_tails(nu):
    """No less than what there is in directions of any slope, and reached in eta and in tau."""
    rng, family = np.random.default_rng(2), StudentTScales(nu=nu)
    tau, r = rng.normal(0.0, 2.0, N_PLACES), rng.standard_cauchy(N_PLACES)
    error = np.exp(rng.normal(0.0, 2.0, N_PLACES)) * rng.integers(0, 2, N_PLACES)
    r *= np.sqrt(nu) * np.hypot(np.exp(tau), error)
    y, eta, none = np.column_stack([r, error]), np.stack([0.0 * r, tau]), np.zeros((2, N_PLACES))
    size = np.sqrt(nu * (np.exp(2.0 * tau) + error**2) + r**2)
    spread = np.exp(rng.normal(0.0, 1.5, (2, N_PLACES))) * [size, np.ones(N_PLACES)]
    for i, slopes in enumerate(([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0])):
        own = spread * np.array(slopes)[:, None]
        v = (Series.line(tau, own[1]) * 2.0).exp() + error**2
        residual = Series.line(r, -own[0])
        log_l = v.log() * (0.5 * nu) - (v * nu + residual * residual).log() * (0.5 * (nu + 1.0))
        share = np.abs(log_l.derivative(3)) / family.third_bound(eta, none, np.abs(own), y)
        assert 0.99 * (i < 2 and nu < 10.0) < share.max() < 1.0 + 1e-9
        # From elsewhere: within a half-width of there, and at any distance.
        moved = eta + spread * rng.uniform(-1.0, 1.0, spread.shape)
        there = family.third_bound(moved, np.abs(eta - moved), np.abs(own), y)
        far = limit_beyond(family, moved, eta - moved, spread, y)
        largest = np.abs(log_l.derivative(3)) * (1.0 - 1e-9)
        assert np.all(largest <= there)
        assert np.all(largest <= far)


N_FEW = 30
FEW = np.random.default_rng(1).normal(0.4, 0.8, N_FEW)
ERRORS = np.linspace(0.1, 1.5, N_FEW)


def log_scale():
    return pm.Normal("log sigma", 0.0, 1.0)


def truncated(m):
    pm.TruncatedNormal("y", m, exp(log_scale()), lower=-2.0, observed=FEW)


def skewed(m):
    pm.SkewNormal("y", mu=m, sigma=exp(log_scale()), alpha=1.5, observed=FEW)


def with_errors(m):
    pm.Normal("y", m, sqrt(ERRORS**2 + exp(log_scale()) ** 2), observed=FEW)


def heteroscedastic(m):
    pm.Normal("y", m, exp((ERRORS - 0.5) * log_scale()), observed=FEW)


def tailed(m):
    pm.StudentT("y", nu=3.0, mu=m, sigma=exp((ERRORS - 0.5) * log_scale()), observed=FEW)


def tailed_with_errors(m):
    pm.Cauchy("y", m, sqrt(ERRORS**2 + exp(log_scale()) ** 2), observed=FEW)


#: Models of a mean and a log scale, with the densities of rows as SciPy has them.
OF_TWO = {
    "truncated": (
        truncated,
        lambda m, t: stats.norm.logpdf(FEW, m, np.exp(t)) - stats.norm.logsf(-2.0, m, np.exp(t)),
    ),
    "skewed": (skewed, lambda m, t: stats.skewnorm.logpdf(FEW, 1.5, m, np.exp(t))),
    "with errors": (
        with_errors,
        lambda m, t: stats.norm.logpdf(FEW, m, np.hypot(ERRORS, np.exp(t))),
    ),
    "heteroscedastic": (
        heteroscedastic,
        lambda m, t: stats.norm.logpdf(FEW, m, np.exp((ERRORS - 0.5) * t)),
    ),
    "tailed": (tailed, lambda m, t: stats.t.logpdf(FEW, 3.0, m, np.exp((ERRORS - 0.5) * t))),
    "tailed with errors": (
        tailed_with_errors,
        lambda m, t: stats.cauchy.logpdf(FEW, m, np.hypot(ERRORS, np.exp(t))),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("truncated", FireflyMH, {"kernel": "joint"}),
        ("with errors", FireflyMH, {"kernel": "joint"}),
        ("tailed", FireflyMH, {"kernel": "joint"}),
        ("skewed", FireflyMH, {"kernel": "joint"}),
        ("heteroscedastic", FireflyMH, {"kernel": "joint"}),
        ("truncated", FireflyHMC, {}),
        ("heteroscedastic", FireflyHMC, {}),
        ("tailed", FireflyHMC, {}),
        ("tailed with errors", FireflyMH, {}),
        ("tailed with errors", FireflyHMC, {}),
    ],
)
def test_posterior_by_quadrature(name, kind, settings):
    write, rows = OF_TWO[name]
    with pm.Model() as model:
        write(np.ones((N_FEW, 1)) @ pm.Normal("m", 0.0, 1.0, shape=1))
    step = step_of(model, kind, **{"transitions": 40, **settings})
    assert isinstance(step.bounds[0], Taylor)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=6000, chains=2)

    def log_density(points):
        m, t = points[:, :1], points[:, 1:]
        prior = stats.norm.logpdf(points).sum(axis=1)
        return rows(m, t).sum(axis=1) + prior

    assert_matches(draws, quadrature(log_density, [-4.0, -8.0], [4.0, 4.0]))
