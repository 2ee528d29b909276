"""Rows with weights: the same posterior as with repeated rows, for all families and bounds."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import (
    Bohning,
    FireflyHMC,
    FireflyMH,
    FreeJaakkolaJordan,
    JaakkolaJordan,
    JebaraChoromanska,
    Tangent,
    Taylor,
    UnsupportedModelError,
    weighted,
)
from pymc_flymc.bounds import AllRows
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.passes import likelihood_pass
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import log_sigmoid
from tests.support.readings import value_of
from tests.support.steps import drive, step_of

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
ETA = X @ [0.3, 0.5]
WEIGHTS = RNG.integers(0, 4, N)
LEVELS = np.digitize(ETA + RNG.logistic(size=N), [-1.0, 0.5])
COUNTS = RNG.poisson(np.exp(ETA))
NORMAL = ETA + RNG.standard_t(4, size=N)
exp = pm.math.exp


def coefficients(*shape):
    return pm.Normal("beta", 0.0, 2.0, shape=(2, *shape))


def scale(name="sigma"):
    return pm.HalfNormal(name, 1.0)


def censored(y, eta):
    return pm.Censored.dist(pm.Weibull.dist(1.5, exp(eta)), lower=None, upper=2.0)


#: Distributions by outcomes and rows of the design, and the bounds on them.
#: Families whose graphs take long to compile; a weight does the same in all of them.
LONG = "probit", "negative-binomial-free"
FAMILIES = {
    "logistic": (
        LEVELS > 0,
        lambda x: pm.Bernoulli.dist(logit_p=x @ coefficients()),
        (JaakkolaJordan(), Taylor(), Taylor(order=3)),
    ),
    "probit": (
        LEVELS > 0,
        lambda x: pm.Bernoulli.dist(p=pm.math.invprobit(x @ coefficients())),
        (Taylor(), Taylor(order=3)),
    ),
    "binomial": (
        COUNTS % 5,
        lambda x: pm.Binomial.dist(n=4, logit_p=x @ coefficients()),
        (JaakkolaJordan(), Taylor()),
    ),
    "poisson": (
        COUNTS,
        lambda x: pm.Poisson.dist(mu=exp(x @ coefficients())),
        (Taylor(),),
    ),
    "negative-binomial": (
        COUNTS,
        lambda x: pm.NegativeBinomial.dist(mu=exp(x @ coefficients()), alpha=2.0),
        (JaakkolaJordan(), Taylor()),
    ),
    "negative-binomial-free": (
        COUNTS,
        lambda x: pm.NegativeBinomial.dist(mu=exp(x @ coefficients()), alpha=scale()),
        (FreeJaakkolaJordan(),),
    ),
    "softmax": (
        LEVELS,
        lambda x: pm.Categorical.dist(logit_p=x @ coefficients(3)),
        (Bohning(), JebaraChoromanska(), Taylor()),
    ),
    "ordered": (
        LEVELS,
        lambda x: pm.OrderedLogistic.dist(
            eta=x[:, 1] * pm.Normal("beta"),
            cutpoints=pm.Normal("c", [-1, 1], transform=pm.distributions.transforms.ordered),
        ),
        (JaakkolaJordan(), Taylor()),
    ),
    "normal": (
        NORMAL,
        lambda x: pm.Normal.dist(x @ coefficients(), scale()),
        (Tangent(),),
    ),
    "student-t": (
        NORMAL,
        lambda x: pm.StudentT.dist(nu=scale("nu"), mu=x @ coefficients(), sigma=scale()),
        (Tangent(), Tangent(xi=1.0)),
    ),
    "logistic noise": (
        NORMAL,
        lambda x: pm.Logistic.dist(x @ coefficients(), scale()),
        (Tangent(),),
    ),
    "quantile": (
        NORMAL,
        lambda x: pm.AsymmetricLaplace.dist(mu=x @ coefficients(), q=0.7, b=scale()),
        (Tangent(),),
    ),
    "durations": (
        np.exp(NORMAL),
        lambda x: pm.Weibull.dist(1.5, exp(x @ coefficients())),
        (Taylor(),),
    ),
    "censored": (
        np.minimum(np.exp(NORMAL), 2.0),
        lambda x: pm.Censored.dist(
            pm.Weibull.dist(1.5, exp(x @ coefficients())), lower=None, upper=2.0
        ),
        (Taylor(),),
    ),
}


def with_weights(family, weights=WEIGHTS):
    y, dist, _ = FAMILIES[family]
    with pm.Model() as model:
        weighted("y", dist(X), weights, observed=y)
    return model


def repeated(family):
    """Each row as often as its weight says."""
    y, dist, _ = FAMILIES[family]
    with pm.Model() as model:
        other = dist(np.repeat(X, WEIGHTS, axis=0))
        model.register_rv(other, "y", observed=np.repeat(y, WEIGHTS))
    return model


def points_of(model, n=4):
    start, rng = model.initial_point(), np.random.default_rng(1)
    return [{k: rng.normal(size=np.shape(v)) for k, v in start.items()} for _ in range(n)]


@pytest.mark.parametrize(
    "family",
    [pytest.param(family, marks=pytest.mark.slow if family in LONG else ()) for family in FAMILIES],
)
@pytest.mark.slow_cases("quantile", "ordered", "normal", "softmax")
def test_density_is_that_of_repeated_rows(family):
    """In PyMC itself, in expansions of what is read, and in what bounds are prepared of."""
    ours, theirs = with_weights(family), repeated(family)
    log_density = [model.compile_logp() for model in (ours, theirs)]
    readings = [read_model(model) for model in (ours, theirs)]
    for point in points_of(ours):
        assert log_density[0](point) == pytest.approx(log_density[1](point), rel=1e-10)
        found = []
        for reading in readings:
            (regression,) = reading.regressions
            w = value_of(reading.coefficients[0], point)
            design, y, derivatives = regression.design, regression.y, regression.derivatives
            expansion = likelihood_pass(design, y, derivatives, w)
            rest = float(value_of(reading.prior_logp, point))
            found.append((expansion.value + rest, expansion.gradient, expansion.information.array))
        for mine, other in zip(*found, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)
    assert np.sum(WEIGHTS > 0) <= len(readings[0].regressions[0].y) < 2 * np.sum(WEIGHTS > 0)


@pytest.mark.parametrize(
    ("family", "bound"),
    [
        pytest.param(
            family,
            bound,
            id=f"{family}-{bound.name}",
            marks=pytest.mark.slow if family in LONG else (),
        )
        for family, (_, _, bounds) in FAMILIES.items()
        for bound in bounds
    ],
)
@pytest.mark.slow_cases(
    "logistic-third-order Taylor",
    "softmax-Jebara-Choromanska",
    "softmax-Taylor",
    "durations-Taylor",
    "quantile-tangent",
)
def test_bounds(family, bound):
    """Below the likelihood everywhere, and collapsing to the sum over rows."""
    weights = np.where(WEIGHTS == 0, 0.1, WEIGHTS * 1.7)
    (regression,) = read_model(with_weights(family, weights)).regressions
    likelihood = regression.likelihood
    assert bound.supports(likelihood) and AllRows().supports(likelihood)
    nuisances = {"log nu": 1.0, "log kappa": 0.3}
    given = tuple(nuisances.get(name, 0.2) for name in likelihood.nuisances)
    check_bound(bound, likelihood, regression.y, nuisances=given)
    assert unweighted(likelihood).n_predictors == likelihood.n_predictors


@pytest.mark.parametrize(
    ("kind", "settings", "transitions"),
    [
        (FireflyMH, {"bound": Taylor()}, 20),
        (FireflyMH, {"bound": JaakkolaJordan()}, 20),
        pytest.param(FireflyHMC, {}, 6, marks=pytest.mark.slow),
        pytest.param(FireflyMH, {"bound": None}, 30, marks=pytest.mark.slow),
    ],
)
def test_posterior_by_quadrature(kind, settings, transitions):
    """Weights that are not whole."""
    weights = np.where(WEIGHTS == 3, 0.0, 0.3 + WEIGHTS)
    model = with_weights("logistic", weights)
    signed = 2.0 * FAMILIES["logistic"][0] - 1.0

    def log_density(points):
        terms = log_sigmoid(signed * (points @ X.T)) @ weights
        return terms - 0.5 * np.sum((points / 2.0) ** 2, axis=1)

    step = step_of(model, kind, transitions=transitions, **settings)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, quadrature(log_density, [-8.0, -8.0], [8.0, 8.0]))


def test_weights_in_data_containers():
    y = FAMILIES["poisson"][0]
    with pm.Model() as model:
        container = pm.Data("w", WEIGHTS.astype(float))
        weighted("y", pm.Poisson.dist(mu=exp(X @ coefficients())), container, observed=y)
    (regression,) = read_model(model).regressions
    np.testing.assert_array_equal(regression.y[:, 1], WEIGHTS[WEIGHTS > 0])


def test_draws_are_those_of_the_distribution():
    model = with_weights("poisson")
    with model:
        prior = pm.sample_prior_predictive(5, random_seed=1)
    y = prior.prior_predictive["y"].to_numpy()
    assert y.shape == (1, 5, N) and np.all(y == np.floor(y))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(np.arange(N) == 3, -1.0, 1.0), "the weights of 'y' has 1 values .* row 3: -1.0"),
        (np.where(np.arange(N) == 3, np.nan, 1.0), "the weights of 'y' .* row 3: nan"),
        (np.zeros(N), "all weights of 'y' are zero"),
        (np.ones((N, 1)), "the weights of 'y' have 2 axes, and its observed values 1"),
    ],
)
def test_impossible_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        read_model(with_weights("logistic", weights))


@pytest.mark.parametrize("dist", [pm.Poisson, X, pt.as_tensor_variable(X)])
def test_what_is_no_distribution(dist):
    with pm.Model(), pytest.raises(ValueError, match="dist must be an unnamed distribution"):
        weighted("y", dist, WEIGHTS, observed=COUNTS)


def test_other_custom_distributions_are_no_weights():
    """A factor that is free, or another density than that of the distribution drawn from."""

    def dist(mu, size):
        return pm.Poisson.dist(mu, size=size)

    def own(value, mu):
        return 2.0 * pm.logp(pm.Poisson.dist(mu + 1.0), value)

    with pm.Model() as model:
        pm.CustomDist("y", exp(X @ coefficients()), dist=dist, logp=own, observed=COUNTS)
    with pytest.raises(UnsupportedModelError, match="no observed variable that Firefly supports"):
        read_model(model)
    with pm.Model() as model:
        free = pt.exp(pm.Normal("log_weight")) * np.ones(N)

        def power(value, mu, weight):
            return weight * pm.logp(pm.Poisson.dist(mu), value)

        def draw(mu, weight, size):
            return pm.Poisson.dist(mu, size=size)

        mu = exp(X @ coefficients())
        pm.CustomDist("y", mu, free, dist=draw, logp=power, observed=COUNTS)
    with pytest.raises(UnsupportedModelError, match="no observed variable that Firefly supports"):
        read_model(model)
