"""Which effects share a scale."""

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.scaled_effects import find_shared_scales


def scales_of(write):
    """What is found in a model of tau, mu and what `write` adds, at places 0, 1 and from 2 on."""
    with pm.Model() as model:
        write(pm.HalfNormal("tau", 1.0), pm.Normal("mu"))
    layout = Layout.of(model.value_vars, model.initial_point())
    return find_shared_scales(model, model.value_vars, layout)


def centres_of(found):
    """Places of what each effect is around, with weight one; None for zero."""
    locations = found.locations
    assert not locations.offset.any() and np.all(locations.weight == 1.0)
    terms = np.split(locations.place, locations.first[1:-1])
    return [None if not len(each) else int(each[0]) for each in terms if len(each) < 2]


@pytest.mark.parametrize(
    ("write", "centre", "n"),
    [
        (lambda tau, mu: pm.Normal("a", 0.0, tau, shape=5), None, 5),
        (lambda tau, mu: pm.Normal("a", 0.0, tau, shape=(2, 3)), None, 6),
        (lambda tau, mu: pm.Normal("a", np.zeros(3), tau), None, 3),
        (lambda tau, mu: pm.Normal("a", mu, tau, shape=5), 1, 5),
        (lambda tau, mu: pm.Laplace("a", mu, tau, shape=5), 1, 5),
        (lambda tau, mu: pm.StudentT("a", nu=3, sigma=tau, shape=5), None, 5),
        (lambda tau, mu: pm.Gumbel("a", mu, tau, shape=5), 1, 5),
        (lambda tau, mu: pm.Moyal("a", mu, tau, shape=5), 1, 5),
        (lambda tau, mu: pm.SkewNormal("a", mu=mu, sigma=tau, alpha=2.0, shape=5), 1, 5),
    ],
)
def test_effects_are_found(write, centre, n):
    found = scales_of(write)
    assert found.scale.tolist() == [0] and centres_of(found) == [centre] * n
    assert found.first.tolist() == [0, n] and found.effects.tolist() == list(range(2, 2 + n))


@pytest.mark.parametrize(
    ("scale", "place", "power"),
    [
        (lambda tau, mu: 2.0 * tau, 0, 1.0),
        (lambda tau, mu: pm.math.exp(mu), 1, 1.0),
        (lambda tau, mu: pm.math.exp(0.5 * mu - 1.0), 1, 0.5),
        (lambda tau, mu: pm.math.sqrt(tau), 0, 0.5),
        (lambda tau, mu: 1.0 / pm.math.sqrt(tau), 0, -0.5),
        (lambda tau, mu: tau * np.arange(1.0, 6.0), 0, 1.0),
    ],
)
def test_scales_that_are_computed(scale, place, power):
    found = scales_of(lambda tau, mu: pm.Normal("a", 0.0, scale(tau, mu), shape=5))
    assert found.scale.tolist() == [place] and found.effects.tolist() == list(range(2, 7))
    np.testing.assert_allclose(found.power, power, rtol=1e-9)


@pytest.mark.parametrize(
    "scale", [lambda: pm.Uniform("s", 0.0, 9.0), lambda: pm.math.log1pexp(pm.Normal("s"))]
)
def test_scales_that_are_linear_where_they_are_small(scale):
    found = scales_of(lambda tau, mu: pm.Normal("a", 0.0, scale(), shape=5))
    assert found.scale.tolist() == [2] and found.power.tolist() == [1.0] * 5


def test_locations_that_are_elements():
    """Of a variable with a location for some effects each."""

    def write(tau, mu):
        means = pm.Normal("m", shape=3)
        pm.Normal("a", means[[0, 2, 2, 1, 0]], tau)

    found = scales_of(write)
    assert found.effects.tolist() == list(range(5, 10))
    assert centres_of(found) == [2, 4, 4, 3, 2]


U = np.array([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.25]])


@pytest.mark.parametrize(
    ("location", "offset", "weights"),
    [
        (lambda mu, m: 5.0, [5.0] * 3, np.zeros((3, 3))),
        (lambda mu, m: np.arange(3.0), [0.0, 1.0, 2.0], np.zeros((3, 3))),
        (lambda mu, m: 2.0 * mu - 1.0, [-1.0] * 3, [[2.0, 0.0, 0.0]] * 3),
        (lambda mu, m: pm.math.dot(U, m), [0.0] * 3, np.column_stack([np.zeros(3), U])),
        (lambda mu, m: mu + U @ m + 1.0, [1.0] * 3, np.column_stack([np.ones(3), U])),
        (lambda mu, m: mu + m[[0, 1, 1]], [0.0] * 3, [[1, 1, 0], [1, 0, 1], [1, 0, 1]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_locations_that_are_regressions(location, offset, weights, dtype):
    with pytensor.config.change_flags(floatX=dtype):
        found = scales_of(
            lambda tau, mu: pm.Normal("a", location(mu, pm.Normal("m", shape=2)), tau, shape=3)
        )
    assert found.scale.tolist() == [0] and found.effects.tolist() == [4, 5, 6]
    np.testing.assert_array_equal(found.locations.offset, offset)
    assert found.locations.first[-1] == np.count_nonzero(weights)
    row = np.repeat(np.arange(3), np.diff(found.locations.first))
    dense = np.zeros((3, 7))
    dense[row, found.locations.place] = found.locations.weight
    np.testing.assert_array_equal(dense[:, 1:4], weights)


def test_scales_that_are_products():
    """The common scale moves all effects, and each local one its own."""

    def write(tau, mu):
        local = pm.HalfCauchy("local", 1.0, shape=3)
        pm.Normal("a", 0.0, tau * local, shape=(2, 3))

    found = scales_of(write)
    effects = np.split(found.effects, found.first[1:-1])
    of_scale = {k: each.tolist() for k, each in zip(found.scale, effects, strict=True)}
    assert of_scale == {0: [*range(5, 11)], 2: [5, 8], 3: [6, 9], 4: [7, 10]}
    np.testing.assert_allclose(found.power, 1.0, rtol=1e-9)


def test_scales_of_single_effects():
    """As the local ones of a horseshoe."""
    found = scales_of(lambda tau, mu: pm.Normal("a", 0.0, pm.HalfNormal("s", 1.0, shape=3)))
    assert found.scale.tolist() == [2, 3, 4] and found.first.tolist() == [0, 1, 2, 3]
    assert found.effects.tolist() == [5, 6, 7]


def test_what_moves_is_no_centre():
    """Locations of one scale with the effects around them: these alone have moves."""

    def write(tau, mu):
        means = pm.Normal("m", 0.0, tau, shape=2)
        pm.Normal("a", means[[0, 1, 1]], tau)

    found = scales_of(write)
    assert found.effects.tolist() == [2, 3] and centres_of(found) == [None] * 2


def test_a_scale_is_no_centre():
    """It would move before the effects around it: the move back would end elsewhere."""
    found = scales_of(lambda tau, mu: pm.Normal("a", mu, pm.math.exp(mu), shape=5))
    assert len(found.scale) == 0


@pytest.mark.slow
def test_two_variables_with_one_covariance():
    def write(tau, mu):
        chol, *_ = pm.LKJCholeskyCov("c", n=2, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0))
        pm.MvNormal("a", 0.0, chol=chol, shape=(2, 2))
        pm.MvNormal("b", 0.0, chol=chol, shape=(2, 2))

    found = scales_of(write)
    assert found.scale.tolist() == [2, 4] and found.first.tolist() == [0, 4, 9]
    assert found.effects.tolist() == [5, 7, 9, 11, 3, 6, 8, 10, 12]


def test_sums_of_zero():
    found = scales_of(lambda tau, mu: pm.ZeroSumNormal("a", sigma=tau, shape=5))
    assert found.scale.tolist() == [0] and found.effects.tolist() == [2, 3, 4, 5]

    def write(tau, mu):
        scales = pm.HalfNormal("s", 1.0, shape=2)
        pm.ZeroSumNormal("a", sigma=scales[:, None], shape=(2, 4))

    found = scales_of(write)
    assert found.scale.tolist() == [2, 3] and found.first.tolist() == [0, 3, 6]
    assert found.effects.tolist() == list(range(4, 10))


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_random_walks(shape):
    def write(tau, mu):
        pm.GaussianRandomWalk("a", sigma=tau, init_dist=pm.Normal.dist(), shape=shape)

    found = scales_of(write)
    places = 2 + np.arange(np.prod(shape)).reshape(shape)
    assert found.effects.tolist() == places[..., 1:].ravel().tolist()
    assert centres_of(found) == np.repeat(places[..., 0], 3).tolist()


def test_logarithms_of_effects():
    found = scales_of(lambda tau, mu: pm.LogNormal("a", mu, tau, shape=3))
    assert found.scale.tolist() == [0] and found.effects.tolist() == [2, 3, 4]
    assert centres_of(found) == [1, 1, 1]


def test_conditional_autoregressions():
    """Their precision is the scale."""
    neighbours = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    found = scales_of(lambda tau, mu: pm.CAR("a", mu * np.ones(3), neighbours, 0.9, tau))
    assert found.scale.tolist() == [0] and found.effects.tolist() == [2, 3, 4]
    assert centres_of(found) == [1, 1, 1] and found.power.tolist() == [-0.5] * 3


@pytest.mark.parametrize("around", [False, True, None])
@pytest.mark.slow
def test_correlated_effects(around):
    """A scale for each column: a row of the packed Cholesky factor, which its logarithm ends."""

    def write(tau, mu):
        chol, *_ = pm.LKJCholeskyCov("c", n=3, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0))
        means = {None: 0.0, False: np.zeros(3), True: pm.Normal("m", shape=3)}[around]
        pm.MvNormal("a", means, chol=chol, shape=(2, 3))

    found = scales_of(write)
    a = 11
    assert found.scale.tolist() == [2, 4, 7] and found.first.tolist() == [0, 2, 5, 9]
    assert found.effects.tolist() == [a, a + 3, 3, a + 1, a + 4, 5, 6, a + 2, a + 5]
    m = [8, 8, 9, 9, 10, 10] if around else [None] * 6
    none = [None]
    assert centres_of(found) == [*m[:2], *none, *m[2:4], *none, *none, *m[4:]]
    assert np.all(found.power == 1.0)


def test_covariances_that_are_computed():
    """Of a Gaussian process, and of standard deviations with fixed correlations."""
    kernel = np.exp(-np.abs(np.subtract.outer(np.arange(3), np.arange(3))))

    def process(tau, mu):
        exponent = pm.HalfNormal("exponent")  # no scale
        pm.MvNormal("a", mu * np.ones(3), tau**2 * kernel**exponent, shape=3)

    found = scales_of(process)
    assert found.scale.tolist() == [0] and found.effects.tolist() == [3, 4, 5]
    assert centres_of(found) == [1, 1, 1]
    np.testing.assert_allclose(found.power, 1.0, rtol=1e-9)

    def apart(tau, mu):
        sds = pm.HalfNormal("s", 1.0, shape=3)
        pm.MvNormal("a", np.zeros(3), sds[:, None] * kernel * sds, shape=(2, 3))

    found = scales_of(apart)
    assert found.scale.tolist() == [2, 3, 4] and found.first.tolist() == [0, 2, 4, 6]
    assert found.effects.tolist() == [5, 8, 6, 9, 7, 10]


def test_a_walk_of_vectors():
    """The second is around one of the same covariance, and so no effect of its scale alone."""

    def write(tau, mu):
        covariance = pm.math.stack([[tau**2, 0.0], [0.0, tau**2]])
        first = pm.MvNormal("a", np.zeros(2), covariance)
        pm.MvNormal("b", first, covariance)

    found = scales_of(write)
    assert found.scale.tolist() == [0] and found.effects.tolist() == [2, 3]


def test_precisions():
    found = scales_of(lambda tau, mu: pm.Normal("a", 0.0, tau=tau, shape=5))
    assert found.scale.tolist() == [0]
    np.testing.assert_allclose(found.power, -0.5, rtol=1e-9)


@pytest.mark.parametrize(
    ("write", "owners"),
    [
        (lambda s: pm.Normal("a", 0.0, s, shape=(3, 2)), [0, 1, 0, 1, 0, 1]),
        (lambda s: pm.Normal("a", 0.0, s[:, None], shape=(2, 3)), [0, 0, 0, 1, 1, 1]),
        (lambda s: pm.Normal("a", 0.0, s[[1, 0, 0, 1]]), [1, 0, 0, 1]),
        (lambda s: pm.Normal("a", 0.0, pm.math.exp(s), shape=(3, 2)), None),
    ],
)
def test_several_scales_of_a_variable(write, owners):
    found = scales_of(lambda tau, mu: write(pm.HalfNormal("s", 1.0, shape=2)))
    if owners is None:  # the logarithm of exp(exp(value)) is not linear
        assert len(found.scale) == 0
        return
    assert found.scale.tolist() == [2, 3]
    for k in range(2):
        own = found.effects[found.first[k] : found.first[k + 1]]
        assert own.tolist() == [4 + i for i, owner in enumerate(owners) if owner == k]


def test_two_sets_of_effects():
    def write(tau, mu):
        pm.Normal("a", mu, tau, shape=2)
        pm.Normal("b", 0.0, pm.Exponential("s", 1.0), shape=3)

    found = scales_of(write)
    assert found.scale.tolist() == [0, 4] and found.first.tolist() == [0, 2, 5]
    assert found.effects.tolist() == [2, 3, 5, 6, 7]
    assert centres_of(found) == [1] * 2 + [None] * 3


def test_effects_that_share_a_scale_move_together():
    def write(tau, mu):
        pm.Normal("a", mu, tau, shape=2)
        pm.Normal("b", 0.0, pm.Exponential("s", 1.0), shape=3)
        pm.Laplace("c", 0.0, tau, shape=2)

    found = scales_of(write)
    assert found.scale.tolist() == [0, 4] and found.first.tolist() == [0, 4, 7]
    assert found.effects.tolist() == [2, 3, 8, 9, 5, 6, 7]
    assert centres_of(found) == [1] * 2 + [None] * 5


@pytest.mark.parametrize(
    "write",
    [
        lambda tau, mu: pm.Normal("a", 0.0, 1.0, shape=5),
        lambda tau, mu: pm.Normal("a", 0.0, tau + 1.0, shape=5),
        lambda tau, mu: pm.Normal("a", pm.HalfNormal("m", shape=5), tau),
        lambda tau, mu: pm.Normal("a", mu * np.arange(5) + mu**2, tau),
        lambda tau, mu: pm.GaussianRandomWalk("a", mu, tau, init_dist=pm.Normal.dist(), steps=5),
        lambda tau, mu: pm.Normal("a", 0.0, pm.Uniform("s", 0.5, 1.0), shape=5),
        lambda tau, mu: pm.Gamma("a", 1.0, tau, shape=5),
        lambda tau, mu: pm.Normal("a", tau, 1.0, shape=5),
        lambda tau, mu: pm.Deterministic("a", tau * pm.Normal("z", shape=5)),
    ],
)
def test_others_are_left_alone(write):
    assert len(scales_of(write).scale) == 0


def test_a_location_that_another_step_samples(caplog):
    """No move is made around it, and that is said."""
    with pm.Model() as model:
        tau, mu = pm.HalfNormal("tau", 1.0), pm.Normal("mu")
        a = pm.Normal("a", mu, tau, shape=5)
    values = [model.rvs_to_values[v] for v in (tau, a)]
    layout = Layout.of(values, model.initial_point())
    assert not len(find_shared_scales(model, values, layout).scale)
    assert "scale of 'a' does not move together" in caplog.text
    assert "another step samples their location mu" in caplog.text


def test_an_observed_location_is_no_other_steps(caplog):
    with pm.Model() as model:
        tau, seen = pm.HalfNormal("tau", 1.0), pm.Normal("seen", observed=0.3)
        a = pm.Normal("a", seen, tau, shape=5)
    values = [model.rvs_to_values[v] for v in (tau, a)]
    find_shared_scales(model, values, Layout.of(values, model.initial_point()))
    assert "another step" not in caplog.text
