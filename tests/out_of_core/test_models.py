"""Models whose rows are out of core, by what is read of them and by their draws."""

from dataclasses import replace
from functools import partial

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import JaakkolaJordan, UnsupportedModelError, weighted
from pymc_flymc.extending import (
    RowParameters,
    SmoothFamily,
    find_predictor,
    register_likelihood,
    unregister_likelihood,
)
from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.out_of_core import source as sources
from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.out_of_core.proposals import log_proposal_density
from pymc_flymc.out_of_core.stored_model import read_stored
from pymc_flymc.reading.model import read_model
from tests.out_of_core.test_posteriors import assert_as_in_memory
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.readings import check_density, compare, density_of

N = 3000
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
ETA = X @ [0.3, 0.5, -0.4]
NOISY = ETA + 1.7 * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(ETA)) * (RNG.random(N) < 0.6)
WEIGHTS = RNG.integers(0, 4, N) / 2.0
GROUPS = np.arange(N) % 3


@pytest.fixture(autouse=True)
def partitions(monkeypatch):
    """Several, of several chunks, the last of a single row."""
    monkeypatch.setattr(sources, "CHUNK", 400)
    monkeypatch.setattr(sources, "partition_bounds", lambda n, chunk: [0, 1001, n - 1, n])


def eta(data):
    return data["X"] @ pm.Normal("beta", 0, 1, shape=3)


def normal(data):
    pm.Normal("o", eta(data), pm.HalfNormal("sigma", 2), observed=data["y"])


def normal_in_units(data):
    pm.LogNormal("o", eta(data), pm.HalfNormal("sigma", 2) * data["w"], observed=data["y"])


def normal_with_weights(data):
    distribution = pm.Normal.dist(eta(data), pm.HalfNormal("sigma", 2))
    weighted("o", distribution, data["w"], observed=data["y"])


def logistic_with_weights(data):
    weighted("o", pm.Bernoulli.dist(logit_p=eta(data)), data["w"], observed=data["y"])


def poisson_with_weights(data):
    weighted("o", pm.Poisson.dist(pm.math.exp(eta(data))), data["w"], observed=data["y"])


def counts(data):
    alpha = pm.Gamma("alpha", 2, 1)
    pm.NegativeBinomial("o", mu=pm.math.exp(eta(data)), alpha=alpha, observed=data["y"])


def censored(data):
    noise = pm.Normal.dist(eta(data), pm.HalfNormal("sigma", 2))
    pm.Censored("o", noise, lower=-np.inf, upper=2.0, observed=data["y"])


def durations_with_weights(data):
    alpha, beta = pm.Gamma("alpha", 2, 1), pm.math.exp(eta(data))
    weighted("o", pm.Weibull.dist(alpha=alpha, beta=beta), data["w"], observed=data["y"])


def truncated(data):
    pm.TruncatedNormal("o", eta(data), pm.HalfNormal("sigma", 2), lower=-3.0, observed=data["y"])


def hurdle(data):
    pm.HurdlePoisson("o", pm.Beta("psi", 1, 1), pm.math.exp(eta(data)), observed=data["y"])


def hurdle_of_rows_with_weights(data):
    psi = pm.math.invlogit(data["X"] @ pm.Normal("gamma", 0, 1, shape=3))
    distribution = pm.HurdleLogNormal.dist(psi=psi, mu=eta(data), sigma=pm.HalfNormal("sigma", 2))
    weighted("o", distribution, data["w"], observed=data["y"])


def levels(data):
    steps = pm.distributions.transforms.ordered
    cutpoints = pm.Normal("cutpoints", 0, 2, shape=3, transform=steps, initval=[-1, 0, 1])
    slopes = pm.Normal("slopes", 0, 1, shape=2)
    eta = data["X"][:, 1:] @ slopes
    pm.OrderedLogistic("o", eta=eta, cutpoints=cutpoints, observed=data["y"])


def levels_with_weights(data):
    distribution = pm.OrderedLogistic.dist(eta=eta(data), cutpoints=np.array([-1.0, 1.0]))
    weighted("o", distribution, data["w"], observed=data["y"])


def two(data):
    both = eta(data)
    pm.Bernoulli("above", logit_p=both, observed=pm.math.gt(data["y"], 1))
    pm.Poisson("o", pm.math.exp(both), observed=data["y"])


def scales(data):
    log_scale = data["X"] @ pm.Normal("gamma", 0, 1, shape=3)
    pm.Normal("o", eta(data), pm.math.exp(log_scale), observed=data["y"])


def probabilities_of_groups(data):
    pm.Bernoulli("o", p=pm.Beta("p", 2, 2, shape=3)[data["g"]], observed=data["y"])


def what_is_left_of_groups(data):
    """A function of a lookup, of which the rows elsewhere look up others."""
    pm.Bernoulli("o", p=1.0 - pm.Beta("p", 2, 2, shape=3)[data["g"]], observed=data["y"])


def rates_of_groups(data):
    rate = pm.Gamma("rate", 2, 1, shape=3)
    pm.Poisson("o", rate[data["g"]] * pm.math.exp(eta(data)), observed=data["y"])


def scales_of_groups(data):
    sigma = pm.HalfNormal("sigma", 2, shape=3)
    pm.Normal("o", eta(data), sigma[data["g"]], observed=data["y"])


MODELS = {
    normal: NOISY,
    normal_in_units: np.exp(NOISY),
    normal_with_weights: NOISY,
    logistic_with_weights: (RNG.random(N) < 1 / (1 + np.exp(-ETA))).astype(np.int8),
    poisson_with_weights: RNG.poisson(np.exp(ETA)),
    counts: RNG.negative_binomial(2, 2 / (2 + np.exp(ETA))),
    censored: np.minimum(NOISY, 2.0),
    durations_with_weights: np.exp(ETA) * RNG.weibull(1.5, N) + 1e-9,
    truncated: np.maximum(NOISY, -3.0),
    scales: NOISY,
    probabilities_of_groups: (RNG.random(N) < 0.3 + 0.2 * GROUPS).astype(np.int8),
    what_is_left_of_groups: (RNG.random(N) < 0.3 + 0.2 * GROUPS).astype(np.int8),
    rates_of_groups: RNG.poisson(np.exp(ETA) * (0.5 + GROUPS)),
    scales_of_groups: NOISY * (1.0 + GROUPS),
    hurdle: COUNTS,
    hurdle_of_rows_with_weights: np.where(COUNTS > 0, np.exp(NOISY), 0.0),
    levels: np.digitize(NOISY, [-1.0, 0.0, 1.0]),
    levels_with_weights: np.digitize(NOISY, [-1.0, 1.0]),
    two: COUNTS,
}


def data_of(build):
    data = {"X": X, "y": MODELS[build], "w": WEIGHTS, "g": GROUPS}
    if build is normal_in_units:
        data["w"] = WEIGHTS + 0.5
    with_weights = build is normal_in_units or "weights" in build.__name__
    used = "yg" if build in (probabilities_of_groups, what_is_left_of_groups) else "Xy"
    used += "w" * with_weights + "g" * build.__name__.endswith("of_groups")
    return {name: data[name] for name in used}


def in_memory(build, data):
    with pm.Model() as model:
        build({name: pm.Data(name, values) for name, values in data.items()})
    return model


@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
@pytest.mark.slow_cases("hurdle", "levels", "truncated", "censored", "durations_with_weights")
def test_what_is_read(build):
    """Of each row as the model has it; with all else, sums over rows too, the whole density."""
    data = data_of(build)
    head = written_on_head(data, build)
    stored = read_stored(head, None, source_of(data))
    compare(head, stored)
    parts = []
    for part in stored.regressions:
        design, y = part.design.stored.builder(data)
        parts.append(replace(part, design=design, y=y))
    whole = in_memory(build, data)
    # Not PyMC's own, which has half of the digits far out in a tail.
    check_density(
        whole,
        replace(stored, regressions=tuple(parts)),
        partial(density_of, read_model(whole)),
    )


@pytest.mark.parametrize("build", [normal, normal_in_units, normal_with_weights])
@pytest.mark.slow_cases("normal_in_units")
def test_normal_noise_is_weighed_without_a_row(build):
    """A proposal's weight is the posterior's density over its own."""
    data = data_of(build)
    target = step_elsewhere(written_on_head(data, build), data).target
    v = np.random.default_rng(1).normal(size=(20, 4))
    log_weight, bright, _ = target.weigh((1,), v)
    assert not bright.any()
    whole = in_memory(build, data)
    logp = whole.compile_logp()
    thetas = [target.geometry.unstandardise(each) for each in v]
    expected = [float(logp({"beta": t[:3], "sigma_log__": t[3]})) for t in thetas]
    difference = log_weight + log_proposal_density(v) - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-7)


def test_bounds_that_are_for_rows_in_memory():
    data, bound = data_of(logistic_with_weights), {"o": JaakkolaJordan()}
    with pytest.raises(UnsupportedModelError, match=r"bound of 'o' is 'auto' or Taylor\(\), not"):
        step_elsewhere(written_on_head(data, logistic_with_weights), data, bound=bound)


@pytest.mark.parametrize("agree", [True, False])
def test_effects_whose_groups_agree_on_the_head(agree):
    """What is read depends on no values: later rows have other groups."""
    data = {"g": RNG.integers(0, 4, N), "h": RNG.integers(0, 4, N), "y": RNG.integers(0, 2, N)}
    if agree:
        data["h"][:40] = data["g"][:40]

    def build(data):
        a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=4)
        pm.Bernoulli("o", logit_p=a[data["g"]] + b[data["h"]], observed=data["y"])

    head = written_on_head(data, build)
    reading = read_stored(head, None, source_of(data))
    a, b = RNG.normal(size=(2, 4))
    w = plain_function(head.value_vars, reading.coefficients[0])(a, b)
    design, y = reading.regressions[0].design.stored.builder(data)
    np.testing.assert_allclose(design.predictor(w)[:, 0], a[data["g"]] + b[data["h"]])
    np.testing.assert_array_equal(y, data["y"])


def test_casts_of_groups_that_change_nothing_on_the_head():
    """Whether a row has any group but the first, and which: the same in rows of two groups."""
    data = {"g": RNG.integers(0, 4, N), "y": RNG.integers(0, 2, N)}
    data["g"][:40] %= 2

    def build(data):
        a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=4)
        some = data["g"].astype("bool").astype("int64")
        pm.Bernoulli("o", logit_p=a[some] + b[data["g"]], observed=data["y"])

    head = written_on_head(data, build)
    reading = read_stored(head, None, source_of(data))
    a, b = RNG.normal(size=(2, 4))
    w = plain_function(head.value_vars, reading.coefficients[0])(a, b)
    design, _ = reading.regressions[0].design.stored.builder(data)
    expected = a[np.minimum(data["g"], 1)] + b[data["g"]]
    np.testing.assert_allclose(design.predictor(w)[:, 0], expected)


def test_samples_do_not_travel_with_the_work():
    data = {"X": X, "y": RNG.integers(0, 2, N)}
    reading = read_stored(written_on_head(data, logistic), None, source_of(data))
    stored = reading.regressions[0].design.stored
    before = len(cloudpickle.dumps(stored))
    assert len(stored.sample(2).y) > 1000
    assert len(cloudpickle.dumps(stored)) == before


@pytest.mark.slow
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_draws_are_those_of_rows_in_memory(build):
    assert_as_in_memory(data_of(build), build)


def heavy(data):
    pm.StudentT("o", nu=4.0, mu=eta(data), sigma=2.0, observed=data["y"])


def many_groups(data):
    effects = pm.Normal("effects", 0, 1, shape=400)
    pm.Bernoulli("o", logit_p=effects[data["g"]], observed=data["y"])


@pytest.mark.parametrize("build", [heavy, many_groups])
def test_refused_before_the_first_pass(build, monkeypatch):
    data = {"X": X, "y": RNG.integers(0, 2, N), "g": RNG.integers(0, 400, N)}
    data = {name: data[name] for name in ("gy" if build is many_groups else "Xy")}
    monkeypatch.setattr(sources.LocalSource, "map", None)
    with pytest.raises(UnsupportedModelError, match="without data="):
        read_stored(written_on_head(data, build), None, source_of(data))


def test_cutpoints_that_do_not_increase():
    def build(data):
        pm.OrderedLogistic("o", eta=eta(data), cutpoints=np.array([1.0, -1.0]), observed=data["y"])

    data = data_of(levels_with_weights)
    data = {name: data[name] for name in "Xy"}
    with pytest.raises(ValueError, match="cutpoints of the observed variable 'o'"):
        read_stored(written_on_head(data, build), None, source_of(data))


@pytest.mark.parametrize(
    ("build", "bad", "expected"),
    [
        (hurdle, -1.0, "counts: -1"),
        (hurdle, 1.5, "counts: 1.5"),
        (levels, -1.0, "levels, .*: -1"),
        (levels, 4.0, "levels, .*: 4"),
        (levels, 0.5, "levels, .*: 0.5"),
    ],
)
def test_impossible_outcomes(build, bad, expected):
    """Where rows have weights of zero, what is no outcome has no part in one either."""
    data = data_of(build)
    data["y"] = data["y"].astype(float)
    head = written_on_head(data, build)
    data["y"][1502] = bad
    with pytest.raises(ValueError, match=rf"row 1,502, in partition 1: o has .*{expected}"):
        read_stored(head, None, source_of(data)).regressions[0].design.stored.sample(1)


def known_scales(data):
    pm.Normal("o", eta(data), data["w"], observed=data["y"])


def units(data):
    pm.Normal(
        "o", eta(data), pm.HalfNormal("sigma", 2) / pm.math.sqrt(data["w"]), observed=data["y"]
    )


def skew(data):
    sigma = pm.HalfNormal("sigma", 2) * data["w"]
    pm.SkewNormal("o", mu=eta(data), sigma=sigma, alpha=1.5, observed=data["y"])


def censored_in_units(data):
    noise = pm.Normal.dist(eta(data), pm.HalfNormal("sigma", 2) * data["w"])
    pm.Censored("o", noise, lower=-np.inf, upper=9.0, observed=data["y"])


def exposed(data):
    pm.Poisson("o", data["w"] * pm.math.exp(eta(data)), observed=data["y"])


def durations_in_units(data):
    alpha, beta = pm.Gamma("alpha", 2, 1), data["w"] * pm.math.exp(eta(data))
    pm.Weibull("o", alpha=alpha, beta=beta, observed=data["y"])


@pytest.mark.parametrize(
    ("build", "y", "bad"),
    [
        (known_scales, NOISY, -0.001),
        (units, NOISY, 0.0),  # a scale that is infinite
        (skew, NOISY, -1.0),
        (censored_in_units, NOISY, -1.0),
        (exposed, COUNTS, -1.0),
        (exposed, COUNTS, 0.0),
        (durations_in_units, np.exp(NOISY), -1.0),
    ],
)
def test_scales_and_exposures_that_only_later_rows_have(build, y, bad):
    """Where the model was read they were positive."""
    data = {"X": X, "w": 0.5 + WEIGHTS, "y": y}
    data["w"][1502] = bad
    model = written_on_head(data, build)
    with pytest.raises(ValueError, match=r"row 1,502, in partition 1: the (design|offset) of 'o'"):
        reading = read_stored(model, None, source_of(data))
        reading.regressions[0].design.stored.sample(1)


def given_hurdle(data):
    pm.HurdlePoisson("o", data["w"], pm.math.exp(eta(data)), observed=data["y"])


def given_number(data):
    p = pm.math.sigmoid(eta(data))
    pm.NegativeBinomial("o", n=data["w"], p=p, observed=data["y"])


def given_number_above_zero(data):
    counts = pm.NegativeBinomial.dist(n=data["w"], p=pm.math.sigmoid(eta(data)))
    pm.Truncated("o", counts, lower=1, observed=data["y"])


@pytest.mark.parametrize(
    ("build", "y", "bad", "expected"),
    [
        (given_hurdle, 0, 1.5, "probability of o, by psi, .*: -0.5"),
        (given_hurdle, 0, 1.0, "probability of o, by psi, .*: 0.0"),
        (given_hurdle, 1, 1.5, "probability of o, by psi, .*: 1.5"),
        (given_hurdle, 1, 0.0, "probability of o, by psi, .*: 0.0"),
        (given_number, 1, -0.5, "alpha of o .*: -0.5"),
        (given_number, 1, 0.0, "alpha of o .*: 0.0"),
        (given_number_above_zero, 1, -0.5, "alpha of o .*: -0.5"),
    ],
)
def test_probabilities_and_numbers_that_only_later_rows_have(build, y, bad, expected):
    """No offset is NaN there, and the model has no density."""
    counts = np.maximum(COUNTS, 1) if build is given_number_above_zero else COUNTS.copy()
    data = {"X": X, "w": np.full(N, 0.6), "y": counts}
    data["w"][1502], data["y"][1502] = bad, y
    reading = read_stored(written_on_head(data, build), None, source_of(data))
    with pytest.raises(ValueError, match=f"row 1,502, in partition 1: .*{expected}"):
        reading.regressions[0].design.stored.sample(1)


def test_a_psi_that_later_rows_would_change():
    """The check of each row must not be about a mean of the first ones."""

    def build(data):
        psi = 0.6 * data["w"] / data["w"].mean()
        pm.HurdlePoisson("o", psi, pm.math.exp(eta(data)), observed=data["y"])

    data = {"X": X, "w": WEIGHTS + 0.5, "y": COUNTS}
    with pytest.raises(UnsupportedModelError, match="depend on each other"):
        read_stored(written_on_head(data, build), None, source_of(data))


def truncated_by_row(data):
    upper = pm.math.switch(pm.math.gt(data["w"], 0), np.inf, 1.0)
    pm.TruncatedNormal("o", eta(data), 1.0, lower=-3.0, upper=upper, observed=data["y"])


def test_a_second_limit_that_only_later_rows_have():
    data = {"X": X, "w": 0.5 + WEIGHTS, "y": np.maximum(NOISY, -3.0)}
    data["w"][1502] = -1.0
    reading = read_stored(written_on_head(data, truncated_by_row), None, source_of(data))
    with pytest.raises(ValueError, match=r"row 1,502, .* not within the limit of truncation"):
        reading.regressions[0].design.stored.sample(1)


def truncated_counts(data):
    counts = pm.Poisson.dist(pm.math.exp(eta(data)))
    pm.Truncated("o", counts, lower=data["w"], observed=data["y"])


def inflated_elsewhere(data):
    components = [pm.DiracDelta.dist(data["w"]), pm.Poisson.dist(pm.math.exp(eta(data)))]
    pm.Mixture("o", w=np.array([0.3, 0.7]), comp_dists=components, observed=data["y"])


@pytest.mark.parametrize(("build", "common"), [(truncated_counts, 1), (inflated_elsewhere, 0)])
def test_families_that_only_the_first_rows_are_of(build, common):
    """Counts from 1 on, or with zeros added: later rows have other limits, or other numbers."""
    data = {"X": X, "w": np.full(N, common), "y": np.maximum(COUNTS, 1)}
    data["w"][1502] = 2
    with pytest.raises(UnsupportedModelError, match="no observed variable that Firefly supports"):
        read_stored(written_on_head(data, build), None, source_of(data))


class GumbelNoise(SmoothFamily):
    """A family that the package does not have."""

    name = "gumbel"
    distributions = pm.Gumbel
    usage = "pm.Gumbel(eta, 1)"

    def read(self, rv):
        mu, _ = rv.owner.op.dist_params(rv.owner)
        return RowParameters(self, find_predictor(mu, lambda eta: eta))

    def log_likelihood(self, arguments, y):
        (eta,) = arguments
        return eta - y - pt.exp(eta - y)


def gumbel(data):
    pm.Gumbel("o", eta(data), 1.0, observed=data["y"])


@pytest.fixture
def registered():
    family = GumbelNoise()
    register_likelihood(family)
    yield family
    if family in LIKELIHOODS:
        unregister_likelihood(family)


def test_a_family_that_is_registered_later(registered):
    data = {"X": X, "y": ETA + RNG.gumbel(size=N)}
    reading = read_stored(written_on_head(data, gumbel), None, source_of(data))
    assert reading.regressions[0].likelihood is registered
    unregister_likelihood(registered)
    with pytest.raises(UnsupportedModelError, match="Gumbel"):
        read_stored(written_on_head(data, gumbel), None, source_of(data))


@pytest.mark.slow
def test_draws_of_a_family_that_is_registered_later(registered):
    assert_as_in_memory({"X": X, "y": ETA + RNG.gumbel(size=N)}, gumbel)
