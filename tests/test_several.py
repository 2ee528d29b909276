"""Several likelihoods in one model: which are taken, their sums, exact posteriors, saved states."""

import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from conftest import assert_matches, drive, log_sigmoid, quadrature
from scipy import stats
from scipy.special import gammaln

import pymc_flymc.reading.model
from pymc_flymc import (
    ExplicitResampling,
    FireflyHMC,
    FireflyMH,
    FireflySlice,
    JaakkolaJordan,
    Tangent,
    Taylor,
)
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.model import ENOUGH_ROWS, read_model


@pytest.fixture
def any_size(monkeypatch):
    """Take likelihoods of any number of rows."""
    monkeypatch.setattr(pymc_flymc.reading.model, "ENOUGH_ROWS", 1)


def shop(n=60, m=40, dtype=np.float64, **effects):
    """Logistic and robust regressions that share a coefficient."""
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(m, 2)).astype(dtype)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        c = pm.Normal("c", 0.0, 1.0, shape=2)
        s = pm.HalfNormal("s", 1.0)
        pm.Bernoulli("bought", logit_p=X @ b, observed=rng.integers(0, 2, n))
        spent = rng.standard_t(4, size=m)
        pm.StudentT("spent", nu=4, mu=Z @ c + Z[:, 0] * b[0], sigma=s, observed=spent)
    return model


def counts():
    """Poisson and softmax regressions: bounds with a radius, several predictors, an offset."""
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(50, 2)), rng.normal(size=(70, 2))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 0.5, shape=2)
        W = pm.Normal("W", 0.0, 1.0, shape=(2, 3))
        offset = rng.normal(size=50)
        pm.Poisson("visits", mu=pm.math.exp(X @ b + offset), observed=rng.poisson(1.0, 50))
        pm.Categorical("brand", logit_p=Z @ W, observed=rng.integers(0, 3, 70))
    return model


def grouped():
    """So many groups that designs are never written out; two regressions share their effects."""
    rng = np.random.default_rng(3)
    group, other = rng.integers(0, 350, 900), rng.integers(0, 350, 200)
    X = rng.normal(size=(900, 1))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=1)
        a = pm.Normal("a", 0.0, 0.5, shape=350)
        pm.Bernoulli("y", logit_p=X @ b + a[group], observed=rng.integers(0, 2, 900))
        pm.Logistic("z", mu=a[other], s=0.7, observed=rng.logistic(size=200))
    return model


# --- reading --------------------------------------------------------------------------------------


def test_likelihoods_with_enough_rows_are_taken():
    model = shop(ENOUGH_ROWS, ENOUGH_ROWS + 200)
    with model:
        pm.Bernoulli("few", logit_p=model["b"][0], observed=np.ones(ENOUGH_ROWS - 1, int))
    reading = read_model(model)
    assert [each.what for each in reading.full_passes] == ["the observed variable 'few'"]
    assert [part.name for part in reading.regressions] == ["spent", "bought"]  # the largest first
    assert [part.design.n_coefficients for part in reading.regressions] == [5, 3]
    point = model.initial_point()
    rest = model.compile_fn(reading.rest_logp, inputs=model.value_vars, point_fn=False)
    expected = model.compile_logp(vars=[*model.free_RVs, model["few"]])(point)
    assert rest(*(point[v.name] for v in model.value_vars)) == pytest.approx(expected, rel=1e-12)


def test_few_rows_of_an_unreadable_form_are_no_error():
    with shop(ENOUGH_ROWS, ENOUGH_ROWS - 1) as model:
        pm.Bernoulli("odd", p=pm.Beta("p", 1.0, 1.0), observed=[1, 0])
    reading = read_model(model)
    assert [part.name for part in reading.regressions] == ["bought"]
    assert [each.what for each in reading.full_passes] == ["the observed variable 'spent'"]


@pytest.mark.parametrize("largest", [True, False])
def test_unreadable_form_of_a_large_one(largest):
    model, n = shop(1500, 1200), 2000 if largest else 1400
    with model:
        x = np.linspace(0.0, 1.0, n)
        pm.StudentT("odd", nu=4, mu=pm.math.exp(model["b"][0] * x), sigma=1.0, observed=x)
    if largest:
        with pytest.raises(UnsupportedModelError, match="'odd'"):
            read_model(model)
        return
    reading = read_model(model)
    (found,) = reading.full_passes
    assert found.what == "the observed variable 'odd'" and "'odd'" in found.reason
    assert [part.name for part in reading.regressions] == ["bought", "spent"]


def test_rows_of_another_step_stay_in_the_rest():
    """A step that does not own a variable of a likelihood may not subsample its rows."""
    with pytest.warns(UserWarning, match=r"vars leaves out \['c', 's'\]"):
        reading = read_model(shop(1500, 1200), ["b"])
    (found,) = reading.full_passes
    assert "'spent' depends on ['s', 'c']" in found.reason
    assert [part.name for part in reading.regressions] == ["bought"]


def test_invalid_data_name_their_variable(any_size):
    with pm.Model() as model:
        b = pm.Normal("b", shape=1)
        pm.Bernoulli("y", logit_p=np.ones((30, 1)) @ b, observed=np.ones(30, int))
        pm.Poisson("z", mu=pm.math.exp(np.full((20, 1), np.nan) @ b), observed=np.ones(20, int))
    with pytest.raises(ValueError, match="the design of 'z' has NaN"):
        read_model(model)


def test_designs_get_one_type(any_size):
    """float32 beside float64 is widened, alone it is not copied, and without columns it yields."""
    first, second = read_model(shop(dtype=np.float32)).regressions
    assert first.design.X.dtype == second.design.X.dtype == np.float64
    x = np.ones((30, 2), np.float32)
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.Bernoulli("y", logit_p=x @ b, observed=np.ones(30, int))
        pm.Logistic("z", mu=b[np.arange(20) % 2], s=1.0, observed=np.zeros(20))
    first, second = (part.design for part in read_model(model).regressions)
    assert np.shares_memory(first.X, x)
    assert second.X.shape == (20, 0) and second.X.dtype == np.float32


def test_settings_that_do_not_fit(any_size):
    with shop():
        with pytest.raises(ValueError, match=r"not one on student-t.*'spent'"):
            FireflyMH(bound=JaakkolaJordan())
        with pytest.raises(ValueError, match="one likelihood"):
            FireflyMH(proposal="independent")
        with pytest.raises(ValueError, match=r"names 'sold'.*are 'bought', 'spent'"):
            FireflyMH(bound={"sold": Tangent()})
        with pytest.raises(ValueError, match="not for 'spent' alone"):
            FireflyMH(bound={"spent": None})
        with pytest.raises(ValueError, match="not 'tangent'"):
            FireflyHMC(bound={"spent": "tangent"})


def test_bounds_by_name(any_size):
    with shop():
        step = FireflyHMC(bound={"spent": Tangent(slack=1.0)})
    bought, spent = step.bounds
    assert isinstance(bought, JaakkolaJordan) and spent.slack == 1.0


def both_have_bright_rows(chain):
    first = chain.bright.index[: chain.n_bright] < len(chain.target.data.parts[0].X)
    return 0 < first.sum() < len(first)


# --- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [shop, counts, grouped])
def test_rows_and_collapsed_sums_add_up_to_the_model(any_size, make):
    """log p(theta) + sum log B + sum log(1 + (L/B - 1)) is the model's log density."""
    model, rng = make(), np.random.default_rng(4)
    with model:
        step = FireflyMH()
    target, parts, logp = step.target, read_model(model).regressions, model.compile_logp()
    left_out = sum(gammaln(part.y + 1.0).sum() for part in parts if part.name == "visits")
    assert len(target.parts) == 2 and not target.is_joint
    place = target.data.rows.place
    assert place[-1] == target.n_slopes
    for scale in (0.0, 0.5, 1.0, 3.0):
        v = scale * rng.standard_normal(len(target.geometry.centre))
        theta = target.geometry.centre + step._new_chain()._laplace.apply(v)
        w = np.empty(target.n_slopes)
        total = target.density(theta, target.statistics, w)
        for i, (part, reading) in enumerate(zip(target.parts, parts, strict=True)):
            design, own = reading.design, w[place[i] : place[i + 1]]
            eta = design.predictor(own[: design.n_coefficients])
            odds = np.empty(design.n_rows)
            shared = own[design.n_predictors * design.width :].copy()
            part.log_factor(eta, target.data.parts[i].constants, shared, odds)
            total += np.logaddexp(0.0, odds).sum()
        # PyMC's own Student-t density is right to ten digits.
        expected = logp(step._layout.unravel(theta)) + left_out
        assert total == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [shop, counts, grouped])
def test_bright_rows_have_their_own_odds(any_size, make):
    """What kernels keep of the bright rows is what the likelihoods' own factors say."""
    model, rng = make(), np.random.default_rng(7)
    with model:
        step = FireflyMH()
    chain, data, parts = step._new_chain(), step.target.data, read_model(model).regressions
    for _ in range(200):
        chain.start(rng, 2.0 * rng.standard_normal(len(chain.state.v)))
        chain.advance(rng, 2, 0.0)
        if both_have_bright_rows(chain):
            break
    index, odds = (a[: chain.n_bright] for a in (chain.bright.index, chain.bright.log_odds))
    for i, rows in enumerate(data.parts):
        mine = (index >= rows.first) & (index < rows.first + len(rows.X))
        assert mine.any()
        design, own = parts[i].design, chain.state.w[slice(*data.rows.place[i : i + 2])]
        local = index[mine] - rows.first
        eta = design.predictor(own[: design.n_coefficients], local)
        expected, shared = np.empty(len(local)), own[design.n_predictors * design.width :].copy()
        constants = np.ascontiguousarray(rows.constants[local])
        step.target.parts[i].log_factor(eta, constants, shared, expected)
        np.testing.assert_allclose(odds[mine], expected, rtol=1e-8)


# --- exact posteriors -----------------------------------------------------------------------------


def two_regressions():
    """Intercept and slope of a logistic regression, the slope also that of a robust one."""
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=30), rng.normal(size=20)
    y = (rng.random(30) < np.exp(log_sigmoid(-0.5 + x))).astype(int)
    t = 0.5 * z + 0.7 * rng.standard_t(4, size=20)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 2.0, shape=1)
        pm.Bernoulli("y", logit_p=a + x[:, None] @ b, observed=y)
        pm.StudentT("t", nu=4.0, mu=z[:, None] @ b, sigma=0.7, observed=t)

    def log_density(points):
        a, b = points.T[:, :, None]
        value = log_sigmoid((2.0 * y - 1.0) * (a + b * x)).sum(axis=1)
        value += stats.t.logpdf(t, 4.0, b * z, 0.7).sum(axis=1)
        return value - 0.5 * np.sum((points / 2.0) ** 2, axis=1)

    return model, quadrature(log_density, [-12.0, -12.0], [12.0, 12.0])


def counts_and_noise():
    """A rate that is also the location of noise with a free scale: radius and nuisance."""
    rng = np.random.default_rng(6)
    x, z = rng.normal(size=25), rng.normal(size=20)
    y, t = rng.poisson(np.exp(0.4 * x)), 0.4 * z + 0.7 * rng.standard_t(4, size=20)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 2.0, shape=1)
        s = pm.HalfNormal("s", 2.0)
        pm.Poisson("y", mu=pm.math.exp(x[:, None] @ b), observed=y)
        pm.StudentT("t", nu=4.0, mu=z[:, None] @ b, sigma=s, observed=t)

    def log_density(points):
        b, log_s = points.T[:, :, None]
        value = stats.poisson.logpmf(y, np.exp(b * x)).sum(axis=1)
        value += stats.t.logpdf(t, 4.0, b * z, np.exp(log_s)).sum(axis=1)
        prior = -0.5 * (points[:, 0] / 2.0) ** 2 - 0.5 * (np.exp(points[:, 1]) / 2.0) ** 2
        return value + prior + points[:, 1]

    return model, quadrature(log_density, [-3.0, -5.0], [3.0, 4.0])


PROBLEMS = {"two regressions": two_regressions, "counts and noise": counts_and_noise}


@pytest.fixture(scope="module")
def problems():
    return {name: make() for name, make in PROBLEMS.items()}


@pytest.mark.parametrize(
    ("kind", "problem", "settings"),
    [
        (FireflyMH, "two regressions", {"transitions": 25}),
        (FireflyMH, "counts and noise", {"transitions": 40}),
        (FireflyMH, "two regressions", {"transitions": 15, "bound": None}),
        (
            FireflyMH,
            "two regressions",
            {"transitions": 50, "brightness": ExplicitResampling(0.1, "cycle")},
        ),
        (FireflyHMC, "two regressions", {"transitions": 4}),
        (FireflyHMC, "counts and noise", {"transitions": 6}),
        (FireflySlice, "two regressions", {"transitions": 6}),
    ],
)
def test_posterior_by_quadrature(any_size, problems, kind, problem, settings):
    model, reference = problems[problem]
    with model:
        step = kind(**settings)
    assert len(step.bounds) == 2
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2, seed=1)
    assert_matches(draws, reference)


# --- state ----------------------------------------------------------------------------------------


def advance(step, point, n):
    draws, records = [], []
    for _ in range(n):
        point, [record] = step.step(point)
        draws.append(np.concatenate([np.ravel(value) for value in point.values()]))
        records.append((record["n_bright"], record["likelihood_queries"]))
    return point, np.array(draws), np.array(records)


@pytest.mark.parametrize("kind", [FireflyMH, FireflyHMC])
def test_saved_state_continues_in_another_process(any_size, kind):
    model = counts()
    with model:
        step = kind(brightness=ExplicitResampling(0.1, "cycle"))
    fresh = cloudpickle.loads(cloudpickle.dumps(step))
    step.setup_chain(np.random.default_rng(0), 50, 50)
    point = model.initial_point()
    for _ in range(200):
        point, _, _ = advance(step, point, 1)
        if both_have_bright_rows(step._chain):
            break
    assert both_have_bright_rows(step._chain)
    saved, here = step.sampling_state, {k: v.copy() for k, v in point.items()}
    _, draws, records = advance(step, point, 25)
    fresh.sampling_state = saved
    _, draws_again, records_again = advance(fresh, here, 25)
    np.testing.assert_array_equal(draws, draws_again)
    np.testing.assert_array_equal(records, records_again)


def test_sampling_reads_few_rows_of_each():
    """As users run it; both likelihoods are subsampled, each under a bound of its own."""
    model = shop(20_000, 8_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with model:
            step = FireflyMH()
    bought, spent = step.bounds
    assert isinstance(bought, JaakkolaJordan) and isinstance(spent, Tangent)
    with model:
        idata = pm.sample(
            draws=100, tune=200, chains=1, step=step, progressbar=False, random_seed=1,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert idata.sample_stats["n_bright"].mean() < 100
    per_transition = idata.sample_stats["likelihood_queries"] / idata.sample_stats["transitions"]
    assert per_transition.mean() < 100
    assert not any(isinstance(bound, Taylor) for bound in step.bounds)
