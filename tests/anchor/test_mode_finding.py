"""Mode finding converges on easy and hard data, counts passes, and explains failures."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.anchor.expanded_density import FEW
from pymc_flymc.anchor.mode_finding import LARGEST_TOLERANCE, TALL_TOLERANCE
from pymc_flymc.anchor.newton import TOLERANCE
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.steps import setup
from pymc_flymc.steps.setup import read
from tests.support.data import log_sigmoid, logistic_rows, standardised
from tests.support.models import logistic_model


def distance_to_mode(X, y, theta, prior_sd=1.0):
    """Newton's distance to the mode in posterior sds, sqrt(g' H^-1 g), with plain numpy."""
    p = np.exp(log_sigmoid(X @ theta))
    gradient = X.T @ (y - p) - theta / prior_sd**2
    hessian = (X * (p * (1.0 - p))[:, None]).T @ X + np.eye(len(theta)) / prior_sd**2
    # Scaled to a unit diagonal first: columns of any size.
    scale = 1.0 / np.sqrt(np.diag(hessian))
    solved = np.linalg.solve(hessian * np.outer(scale, scale), scale * gradient)
    return np.sqrt((scale * gradient) @ solved), hessian


# The search ends when a step would gain less than TOLERANCE: half the squared distance to the
# mode. The distance is that of the log density's own quadratic, which is what is measured here.
NEAR = np.sqrt(2 * TOLERANCE) * 1.05


def case(name):
    """Design, labels, prior sd."""
    X, y = logistic_rows(3000, 4, spread=1.0)
    if name == "badly-scaled":
        return X * np.array([1.0, 1e-3, 1.0, 1e3]), y, 10.0
    if name == "constant-column":  # beside the intercept, and one of zeros
        return np.column_stack([X, np.full(len(X), 3.0), np.zeros(len(X))]), y, 2.0
    if name == "near-separable":
        eta = X @ [0.5, 3.0, -2.0, 1.0]
        y = (eta > 0).astype(int)
        y[np.argsort(np.abs(eta))[:4]] ^= 1
        return X, y, 5.0
    if name == "separable":
        return X, (X @ [0.5, 3.0, -2.0, 1.0] > 0).astype(int), 3.0
    if name == "many-rows":  # searched on a subsample first
        return *logistic_rows(150_000, 4, spread=1.0), 1.0
    return X, y, 1.0


@pytest.mark.parametrize(
    "name",
    ["easy", "badly-scaled", "constant-column", "near-separable", "separable", "many-rows"],
)
def test_search_converges(searches, name):
    X, y, prior_sd = case(name)
    anchor = searches(logistic_model(X, y, prior_sd))
    distance, hessian = distance_to_mode(X, y, anchor.theta, prior_sd)
    assert distance < NEAR
    assert 1.0 < anchor.passes < 40
    if name == "many-rows":  # bounds touch a last small step short of the centre
        assert distance_to_mode(X, y, anchor.w)[0] < np.sqrt(2 * TALL_TOLERANCE * 4) * 1.05
    else:
        np.testing.assert_allclose(anchor.w, anchor.theta, rtol=1e-12)
    factor = anchor.geometry.factor
    # The factor is the Laplace approximation's, up to the precision of finite differences, which
    # only guide proposals; here, where no curvature is below the floor of 0.01, to 1 %.
    if np.linalg.eigvalsh(hessian)[0] > 0.02:
        scaled = factor.T @ hessian @ factor
        np.testing.assert_allclose(scaled, np.eye(len(scaled)), atol=0.01)
    np.testing.assert_allclose(anchor.parts[0].w_factor, factor, atol=1e-6 * np.abs(factor).max())


def test_subsample_saves_passes(searches):
    """On 150,000 rows a search on a subsample comes first: fewer passes than on 3,000 rows."""
    many, few = (searches(logistic_model(*case(name))) for name in ("many-rows", "easy"))
    assert many.passes < few.passes
    assert many.passes != int(many.passes)  # parts of passes count as such


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_unlike_those_of_the_subsample(searches, seed):
    """They are predicted badly, and with certainty: a Newton step leads far beyond their reach.

    Steps that were only shortened took 49 and 24 passes.
    """
    n, rng = 150_000, np.random.default_rng(seed)
    rare = (rng.random((n, 4)) < 1e-4) * rng.lognormal(0.0, 2.0, size=(n, 4))
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 4)), rare])
    X[:, 1:] /= X[:, 1:].std(axis=0)
    beta = np.concatenate([[0.5], 4.0 * rng.normal(size=4), rng.normal(size=4)])
    y = (np.log(rng.random(n)) < log_sigmoid(X @ beta)).astype(int)
    anchor = searches(logistic_model(X, y, 1.0))
    distance, _ = distance_to_mode(X, y, anchor.theta)
    assert distance < np.sqrt(2 * TALL_TOLERANCE * X.shape[1]) * 1.05
    assert anchor.passes < 20


@pytest.mark.parametrize("family", ["logistic", "binomial", "geometric"])
def test_start_where_rows_are_predicted_badly(searches, family):
    """There quadratics of rows promise more than there is; it took 14, 14 and 26 passes.

    With as much curvature as they lack, the rows' maxima are about as far beyond zero.
    """
    X, _ = logistic_rows(3000, 4, spread=1.0)
    beta, rng = np.array([0.5, 3.0, -2.0, 1.0]), np.random.default_rng(3)
    p = np.exp(log_sigmoid(X @ beta))

    def passes(start):
        with pm.Model() as model:
            eta = X @ pm.Normal("beta", 0.0, 5.0, shape=4, initval=start)
            if family == "logistic":
                pm.Bernoulli("y", logit_p=eta, observed=rng.random(len(X)) < p)
            elif family == "binomial":
                pm.Binomial("y", n=10, logit_p=eta, observed=rng.binomial(10, p))
            else:
                pm.Geometric("y", p=pm.math.sigmoid(eta), observed=rng.geometric(p))
        return searches(model).passes

    assert passes(-beta) <= passes(np.zeros(4))


def test_shape_and_mean_of_counts_with_many_groups(searches):
    """Of counts that are not overdispersed; without mixed derivatives no mode was found."""
    rng, n_groups = np.random.default_rng(0), LARGEST_DENSE + 20
    group = rng.integers(n_groups, size=10_000)
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, pm.HalfNormal("tau", 1.0), shape=n_groups)
        mu = pm.math.exp(pm.Normal("mu") + a[group])
        alpha = pm.Exponential("alpha", 1.0)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=rng.poisson(1.5, len(group)))
    assert searches(model).passes < 20


def test_means_and_scales_of_many_groups(searches):
    """Rows far out are not concave, sums over groups are; it took 25 passes."""
    rng, n_groups = np.random.default_rng(3), LARGEST_DENSE + 20
    group, x = rng.integers(n_groups, size=16_000), rng.normal(size=16_000)
    scale = np.exp(-0.5 + 0.3 * rng.normal(size=n_groups))[group]
    y = 1.0 + 0.5 * x + 0.4 * rng.normal(size=n_groups)[group]
    y += scale * rng.standard_t(5, len(y))
    with pm.Model() as model:
        a = pm.Normal("a", pm.Normal("mu"), pm.HalfNormal("tau"), shape=n_groups)
        d = pm.Normal("d", 0.0, pm.HalfNormal("tau_d"), shape=n_groups)
        sigma = pm.math.exp(pm.Normal("c") + d[group])
        pm.StudentT("y", nu=5.0, mu=a[group] + pm.Normal("b") * x, sigma=sigma, observed=y)
    assert searches(model).passes < 15


def test_passes_are_counted(searches, rows_read):
    """The count is that of the rows that are really evaluated."""
    for name in ("easy", "many-rows"):
        rows_read.clear()
        X, y, prior_sd = case(name)
        anchor = searches(logistic_model(X, y, prior_sd))
        # A stride takes one row more or less than its share.
        assert anchor.passes == pytest.approx(sum(rows_read) / len(y), rel=1e-3)


def test_given_anchor_costs_one_pass(searches):
    X, y, prior_sd = case("easy")
    values = np.array([0.1, -0.2, 0.3, 0.4])
    anchor = searches(logistic_model(X, y, prior_sd), anchor={"beta": values})
    np.testing.assert_array_equal(anchor.w, values)
    distance, _ = distance_to_mode(X, y, anchor.theta, prior_sd)
    # Proposals are centred a Newton step closer to the mode.
    assert distance < 0.3 * distance_to_mode(X, y, values, prior_sd)[0]
    assert anchor.passes == 1.0


@pytest.mark.parametrize("seed", [0, 1])
def test_separable_data_with_flat_prior_are_explained(searches, seed):
    X, _ = logistic_rows(500, 4, seed, spread=1.0)
    y = (X @ [0.1, 3.0, -2.0, 1.0] > 0).astype(int)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=4)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    with model, pytest.raises(ValueError, match=r"no posterior mode found.*beta.*proper prior"):
        FireflyMH()


def test_start_without_density_is_explained():
    X, y = logistic_rows(200, 4, spread=1.0)
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0, shape=4)
        pm.Potential("wall", pm.math.switch(pm.math.lt(beta[0], 1.0), -np.inf, 0.0))
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        with pytest.raises(ValueError, match=r"log density .* is -inf at the start"):
            FireflyMH()


def test_start_without_a_derivative_is_explained():
    X, y = logistic_rows(200, 4, spread=1.0)
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0, shape=4)
        pm.Potential("edge", -pm.math.sqrt(beta[2] ** 2))
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        with pytest.raises(UnsupportedModelError, match=r"no finite derivative in beta\[2\]"):
            FireflyMH()


def with_empty_group(n_groups):
    """The last group has no row, and its prior is largest where the logarithm has no slope."""
    counts = np.random.default_rng(3).poisson(2.0, 60)
    with pm.Model() as model:
        rate = pm.Normal("rate", 0.0, 1.0, shape=n_groups, initval=np.ones(n_groups))
        pm.Poisson("y", rate[np.arange(60) % (n_groups - 1)], observed=counts)
    return model


def test_rate_that_is_zero_at_the_mode_is_explained():
    with (
        with_empty_group(FEW + 1),
        pytest.raises(UnsupportedModelError, match=r"coefficients of 'y' have no finite deri"),
    ):
        FireflyMH()


def test_rate_that_no_coefficient_has_may_be_zero(searches):
    """Derivatives along one parameter after the other do not multiply its slope by zero."""
    anchor = searches(with_empty_group(4))
    assert abs(anchor.theta[3]) < 0.01
    assert np.all(np.isfinite(anchor.parts[0].w_factor))


def test_scale_without_mode_is_found(searches):
    """A common scale and all its coefficients go to zero together: these are integrated out."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20_000, 60))
    eta = X @ rng.normal(0.0, 0.015, 60) - 1.5
    y = (rng.random(len(eta)) < np.exp(log_sigmoid(eta))).astype(int)
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.0)
        tau = pm.HalfNormal("tau", 1.0)
        beta = pm.Normal("beta", 0.0, tau, shape=60)
        pm.Bernoulli("y", logit_p=level + X @ beta, observed=y)
    anchor = searches(model)
    # The scale is 0.015; 60 coefficients with errors of 0.02 tell it to about a quarter.
    assert 0.005 < np.exp(anchor.theta[1]) < 0.03
    assert anchor.passes < 15


def funnel(prior, size, n_groups=0):
    """Model with a scale, and effects with that scale which no row depends on."""
    X, y = logistic_rows(1000, 3, spread=1.0)
    with pm.Model() as model:
        eta = X @ pm.Normal("beta", shape=3)
        prior("a", 0.0, pm.HalfCauchy("s", 1.0), shape=size)
        if n_groups:
            eta += pm.Normal("u", shape=n_groups)[np.arange(1000) % n_groups]
        pm.Bernoulli("y", logit_p=eta, observed=y)
    return model


@pytest.mark.parametrize("size", [(), 200])
@pytest.mark.slow_cases("200")
def test_funnel_outside_the_rows(searches, size):
    """The joint density of a and log s grows without limit: a is integrated out."""
    anchor = searches(funnel(pm.Normal, size))
    assert np.all(np.abs(anchor.theta[3:]) < 0.5)
    sds = np.linalg.norm(anchor.geometry.factor, axis=1)[3:]
    assert np.all((sds > 0.5) & (sds < 2.0))


@pytest.mark.parametrize(("prior", "size", "n_groups"), [(pm.Laplace, 200, 0), (pm.Normal, 9, 320)])
def test_funnel_without_a_mode_is_explained(prior, size, n_groups):
    """Where nothing can be integrated out: without curvature, and beside many effects."""
    message = "s_log__ has come to .* as in the funnel"
    with funnel(prior, size, n_groups), pytest.raises(UnsupportedModelError, match=message):
        FireflyMH()


def test_effects_without_a_mode_at_the_start(searches):
    """What is ordered curves upwards there: it has no sd with which it can be integrated out."""
    rng = np.random.default_rng(3)
    group, level = rng.integers(0, 8, 400), rng.integers(0, 4, 400)
    eta = rng.normal(size=8)[group] + np.array([-2.0, 0.0, 1.0, 3.0])[level]
    y = (rng.random(400) < np.exp(log_sigmoid(eta))).astype(int)
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1.0)
        a = pm.Normal("a", 0.0, s, shape=8)
        levels = pm.Normal(
            "levels", 0.0, 2.0, shape=4, transform=ordered, initval=[-4.0, -3.0, -2.0, -1.0]
        )
        pm.Bernoulli("y", logit_p=a[group] + levels[level], observed=y)
    anchor = searches(model)
    assert np.all(np.abs(anchor.theta) < 5.0)
    # The effects are integrated out as ever: else their scale would have gone to zero.
    assert anchor.theta[0] > np.log(0.1)


def test_few_levels_that_hardly_differ_beside_many_groups(searches):
    """Their scale is not followed to zero: they are integrated out, as those of the groups are."""
    rng, n, groups, levels = np.random.default_rng(1), 2000, 305, 6
    group, level = rng.integers(groups, size=n), rng.integers(levels, size=n)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-rng.normal(0.0, 0.7, groups)[group]))
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, pm.HalfNormal("t"), shape=groups)
        b = pm.Normal("b", 0.0, pm.HalfNormal("u"), shape=levels)
        pm.Bernoulli("y", logit_p=a[group] + b[level], observed=y)
    anchor = searches(model)
    # With r = (u / error)^2 the slope in log u is at least 1 - levels r / (1 + r): the mode is not
    # where that is positive. No mean of so many outcomes has a smaller error than this.
    u, error = np.exp(anchor.theta[1 + groups]), 2.0 / np.sqrt(np.bincount(level).max())
    assert error / np.sqrt(levels - 1) < u < 1.0


@pytest.mark.slow
def test_correlated_slopes(searches):
    """The search ends where the effects' curvature depends on all other parameters."""
    rng = np.random.default_rng(9)
    group, x = rng.integers(0, 16, 8000), rng.normal(size=8000)
    effects = rng.normal(size=(16, 2)) @ [[0.8, 0.2], [0.0, 0.5]]
    eta = effects[group, 0] + effects[group, 1] * x
    y = (rng.random(len(eta)) < np.exp(log_sigmoid(eta))).astype(int)
    with pm.Model() as model:
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
        z = pm.Normal("z", 0.0, 1.0, shape=(16, 2))
        slopes = pm.math.dot(z, chol.T)
        pm.Bernoulli("y", logit_p=slopes[group, 0] + slopes[group, 1] * x, observed=y)
    assert searches(model).passes < 15


@pytest.mark.slow
def test_correlated_effects_of_two_factors_without_correlations(searches):
    """Once correlations of one factor are integrated out, the search follows the other's."""
    rng, sizes = np.random.default_rng(1), (20, 7)
    first, x = rng.integers(0, sizes[0], 600), rng.normal(size=600)
    eta = 0.3 + 0.5 * rng.normal(size=sizes[0])[first] + 0.3 * x
    groups = first, rng.integers(0, sizes[1], 600)
    y = rng.poisson(np.exp(eta))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        eta = beta[0] + beta[1] * x
        for name, size, group in zip("ab", sizes, groups, strict=True):
            sds = pm.HalfNormal.dist(1.0, shape=2)
            chol, *_ = pm.LKJCholeskyCov(f"chol_{name}", n=2, eta=2.0, sd_dist=sds)
            effects = pm.math.dot(pm.Normal(name, shape=(size, 2)), chol.T)
            eta = eta + effects[group, 0] + effects[group, 1] * x
        pm.Poisson("y", pm.math.exp(eta), observed=y)
    geometry = searches(model).geometry
    # All parameters have priors of unit size.
    assert np.all(np.abs(geometry.centre) < 5.0)
    assert np.all(np.linalg.norm(geometry.factor, axis=1) < 5.0)


HARD = ["mnist_7v9_pca50", "adult", "skin", "covtype_92k", "kddcup99_10pct"]


def hard_data(arrays, name):
    X, y = arrays["X"], arrays["y"]
    if name == "mnist_7v9_pca50":  # on its own scale, as in the trials
        return np.column_stack([np.ones(len(X)), X]).astype(np.float64), y
    if name == "covtype_92k":
        y = (y == 1).astype(int)
    if name == "kddcup99_10pct":
        X = np.log1p(X)
    return standardised(X), y


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in ("kddcup99_10pct",) else []) for n in HARD],
)
def test_search_converges_on_real_data(searches, data, name):
    X, y = hard_data(data(name), name)
    anchor = searches(logistic_model(X, y))
    distance, _ = distance_to_mode(X, y, anchor.theta)
    # A search that began with sub-samples, of which passes are fractions, ends a little earlier.
    sampled = anchor.passes % 1.0 > 0.0
    gain = min(TALL_TOLERANCE * X.shape[1], LARGEST_TOLERANCE) if sampled else TOLERANCE
    assert distance < np.sqrt(2 * gain) * 1.05
    assert anchor.passes < 40
    print(f"{name}: {anchor.passes:.1f} passes over {len(y):,} rows")


def test_models_of_many_terms():
    """NumPy knows no function of more than 32 operands."""
    X, y = logistic_rows(200, 2)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        for i in range(36):  # a standard normal prior in all
            pm.Potential(f"p{i}", -0.5 * 0.75 / 36 * (beta**2).sum())
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    found = read(model, None, None, None, "auto")
    assert distance_to_mode(X, y, found.problems[0].anchor.theta)[0] < NEAR


@pytest.mark.slow
def test_quantiles_of_groups_of_uneven_sizes():
    """Effects of groups of a row went further and further: rows far off have no curvature."""
    rng, n, n_groups = np.random.default_rng(1), 20_000, 400
    sizes = rng.gamma(0.8, size=n_groups)
    groups, x = rng.choice(n_groups, n, p=sizes / sizes.sum()), rng.normal(size=n)
    y = 1.0 + 0.5 * x + rng.normal(size=n_groups)[groups] + rng.normal(size=n)
    with pm.Model() as model:
        effects = pm.Normal("a", 0.0, pm.HalfNormal("t"), shape=n_groups)
        eta = pm.Normal("alpha", 0.0, 2.0) + pm.Normal("beta") * x + effects[groups]
        pm.AsymmetricLaplace("y", mu=eta, b=pm.HalfNormal("b"), q=0.9, observed=y)
    anchor = setup.read(model, None, None, None, "auto").problems[0].anchor
    assert anchor.passes < 60
    assert np.abs(anchor.theta).max() < 6.0
