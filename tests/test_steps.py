"""Steps with other kernels: settings, statistics, state, and exact posteriors for each family."""

import numpy as np
import pymc as pm
import pytest
from conftest import (
    assert_matches,
    drive,
    load_data,
    log_sigmoid,
    logistic_posterior,
    quadrature,
    reference_from_draws,
    standardised,
)
from scipy import stats
from scipy.special import log_softmax

from pymc_flymc import (
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
    JaakkolaJordan,
    Taylor,
)

STEPS = {
    "hmc": (FireflyHMC, {}),
    "hmc-diagonal": (FireflyHMC, {"metric": "diagonal"}),
    "mala": (FireflyMALA, {}),
    "slice": (FireflySlice, {}),
    "slice-random": (FireflySlice, {"direction": "random"}),
}
#: Transitions of a draw that leave neighbouring draws of two parameters nearly independent.
TRANSITIONS = {"hmc": 4, "hmc-diagonal": 6, "mala": 20, "slice": 6, "slice-random": 12}


def logistic():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(30), rng.normal(size=30)])
    y = (rng.random(30) < np.exp(log_sigmoid(X @ np.array([-0.5, 1.0])))).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model, quadrature(logistic_posterior(X, y, 2.0), [-12.0, -12.0], [12.0, 12.0])


def softmax():
    """Three classes, the last one of reference."""
    y = np.random.default_rng(2).integers(0, 3, 25)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.5, shape=2)
        logits = pm.math.concatenate([beta, np.zeros(1)])[None, :]
        pm.Categorical("y", logit_p=np.ones((25, 1)) @ logits, observed=y)

    def log_density(points):
        eta = np.column_stack([points, np.zeros(len(points))])
        counts = np.bincount(y, minlength=3)
        return log_softmax(eta, axis=1) @ counts - 0.5 * np.sum((points / 1.5) ** 2, axis=1)

    return model, quadrature(log_density, [-9.0, -9.0], [9.0, 9.0])


def robust():
    """Location and log sigma, a transformed variable."""
    y = 0.3 + 0.7 * np.random.default_rng(3).standard_t(3, size=25)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=1)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=3.0, mu=np.ones((25, 1)) @ mu, sigma=sigma, observed=y)

    def log_density(points):
        mu, log_sigma = points.T
        sigma = np.exp(log_sigma)
        value = stats.t.logpdf(y, 3.0, mu[:, None], sigma[:, None]).sum(axis=1)
        return value - 0.5 * (mu / 2.0) ** 2 - 0.5 * (sigma / 2.0) ** 2 + log_sigma

    return model, quadrature(log_density, [-10.0, -6.0], [10.0, 4.0])


FAMILIES = {"logistic": logistic, "softmax": softmax, "robust": robust}


@pytest.fixture(scope="module")
def problems():
    return {name: make() for name, make in FAMILIES.items()}


def build(kind, model, **settings):
    cls, defaults = STEPS[kind]
    with model:
        return cls(**defaults | settings)


@pytest.fixture(scope="module")
def built(problems):
    """One step of each kind on the logistic model."""
    model, _ = problems["logistic"]
    return model, {kind: build(kind, model) for kind in STEPS}


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        pytest.param(
            kind, family, marks=pytest.mark.slow if "-" in kind and family != "logistic" else ()
        )
        for kind in STEPS
        for family in FAMILIES
    ],
)
def test_posterior_by_quadrature(problems, kind, family):
    model, reference = problems[family]
    step = build(kind, model, transitions=TRANSITIONS[kind])
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, reference)
    assert drawn["likelihood_queries"].mean() > 0.0


@pytest.mark.parametrize("bound", [Taylor(), JaakkolaJordan(slack=0.0), None])
def test_other_bounds_by_quadrature(problems, bound):
    """A radius shared by all rows, walls between rows, and all rows bright."""
    model, reference = problems["logistic"]
    step = build("hmc", model, bound=bound, transitions=6)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2, seed=1)
    assert_matches(draws, reference)


@pytest.mark.parametrize("brightness", [ImplicitResampling(ratio=1.0, sweeps=3)])
def test_several_sweeps_by_quadrature(problems, brightness):
    model, reference = problems["logistic"]
    step = build("mala", model, brightness=brightness, transitions=20)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2, seed=2)
    assert_matches(draws, reference)


def nuts_models():
    """Models of real data, and their free variables."""
    mnist = load_data("mnist_7v9_pca50")
    X, y = standardised(mnist["X"][:4000, :20]), mnist["y"][:4000]
    with pm.Model() as binary:
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    letter = load_data("letter")
    chosen = np.flatnonzero(letter["y"] < 4)[:1500]
    X = standardised(letter["X"][chosen][:, :6])
    with pm.Model() as classes:
        weights = pm.Normal("beta", 0.0, 1.0, shape=(X.shape[1], 4))
        pm.Categorical("y", logit_p=X @ weights, observed=letter["y"][chosen])
    houses = load_data("california_housing")
    X, y = standardised(houses["X"][:2000]), houses["y"][:2000]
    with pm.Model() as robust:
        beta = pm.Normal("beta", 0.0, 2.0, shape=X.shape[1])
        nu, sigma = pm.Gamma("nu", 2.0, 0.1), pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=(y - y.mean()) / y.std())
    return {"logistic": binary, "softmax": classes, "robust": robust}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_real_data_against_nuts(family):
    model = nuts_models()[family]
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=4)

    def draws(idata):
        parts = [idata.posterior[rv.name].to_numpy() for rv in model.free_RVs]
        return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)

    reference = reference_from_draws(
        draws(pm.sample(tune=1500, draws=5000, nuts_sampler="pymc", **options))
    )
    for kind in STEPS:
        ours = pm.sample(step=build(kind, model), tune=1000, draws=10_000, **options)
        assert_matches(draws(ours), reference)


# --- what PyMC asks of a step -----------------------------------------------------------------


def sample(model, step, **settings):
    options = dict(tune=60, draws=60, chains=2, random_seed=3, progressbar=False)
    with model:
        return pm.sample(step=step, compute_convergence_checks=False, **options | settings)


@pytest.mark.parametrize("kind", ["hmc", "hmc-diagonal", "mala", "slice"])
def test_same_draws_whatever_the_cores(built, kind):
    model, steps = built
    one = sample(model, steps[kind], cores=1)
    two = sample(model, steps[kind], cores=2)
    for group in ("posterior", "sample_stats"):
        for name, values in one[group].data_vars.items():
            if name != "sampling_time":
                np.testing.assert_array_equal(values.values, two[group][name].values, name)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("tuning", [True, False])
def test_state_round_trip(built, kind, tuning):
    """What a saved state resumes are the draws that would have followed."""
    model, steps = built
    step = steps[kind]
    step.setup_chain(np.random.default_rng(5), 100, 100)
    step.tune = True
    point = model.initial_point()
    for i in range(70 if tuning else 130):
        if i == 100:
            step.stop_tuning()
        point, _ = step.step(point)
    saved, here = step.sampling_state, point

    def go_on():
        point, out = here, []
        for _ in range(20):
            point, [stat] = step.step(point)
            out.append((*point["beta"], *stat.values()))
        return np.array(out)

    first = go_on()
    step.sampling_state = saved
    np.testing.assert_array_equal(go_on(), first)


@pytest.mark.parametrize("kind", STEPS)
def test_adaptation_ends_with_tuning(built, kind):
    model, steps = built
    step = steps[kind]

    def settings_now():
        chain = step._chain
        kept = [np.copy(array) for array in chain.geometry]
        names = ("log_step", "averaging", "width")
        kept += [np.copy(getattr(chain.moves, n)) for n in names if hasattr(chain.moves, n)]
        return [*kept, np.array(step.tuning.transitions)]

    step.setup_chain(np.random.default_rng(6), 100, 100)
    step.tune = True
    point, _ = step.step(model.initial_point())
    first = settings_now()
    for _ in range(99):
        point, _ = step.step(point)
    step.stop_tuning()
    frozen = settings_now()
    assert any(not np.array_equal(a, b) for a, b in zip(first, frozen, strict=True))
    for _ in range(50):
        point, _ = step.step(point)
        for a, b in zip(settings_now(), frozen, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["hmc", "mala"])
def test_step_size_is_tuned_to_the_acceptance_asked_for(problems, kind):
    """Higher acceptance comes from shorter steps, in every chain; the recursion has a test."""
    model, _ = problems["logistic"]
    steps, rates = [], []
    for target in (0.6, 0.9):
        step = build(kind, model, target_accept=target, transitions=20)
        _, drawn = drive(step, model.initial_point(), tune=400, draws=300, chains=4)
        steps.append(drawn["step_size"].reshape(4, -1)[:, -1])
        rates.append(drawn["accept"].reshape(4, -1).mean(axis=1))
    assert steps[0].min() > steps[1].max()
    assert rates[0].max() < rates[1].min()


def test_statistics(built):
    model, steps = built
    n_steps = sample(model, steps["hmc"], draws=40).sample_stats["n_steps"]
    assert np.all(n_steps > 0)
    mala = sample(model, steps["mala"], draws=40).sample_stats
    np.testing.assert_array_equal(mala["n_steps"], mala["transitions"])
    assert np.all(sample(model, steps["slice"], draws=40).sample_stats["slice_width"] > 0.0)


def test_queries_of_trajectories_are_counted(problems):
    """Each leapfrog step, and the start of each trajectory, reads all rows without a bound."""
    model, _ = problems["logistic"]
    step = build("hmc", model, bound=None, transitions=5)
    _, drawn = drive(step, model.initial_point(), tune=20, draws=50)
    np.testing.assert_array_equal(drawn["likelihood_queries"], 30 * (drawn["n_steps"] + 5))


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (FireflyHMC, {"path_length": 0.0}, "path_length must be a positive number"),
        (FireflyHMC, {"target_accept": 1.0}, "target_accept must be a number between 0 and 1"),
        (FireflyMALA, {"target_accept": -0.1}, "target_accept must be a number between 0 and 1"),
        (FireflyHMC, {"metric": "full"}, "metric must be one of auto, dense, diagonal"),
        (FireflyHMC, {"bound": "tight"}, "bound must be a bound"),
        (FireflySlice, {"direction": "up"}, "direction must be one of coordinate, random"),
        (FireflySlice, {"transitions": 0}, "transitions must be a positive integer"),
    ],
)
def test_settings_are_checked(problems, cls, settings, message):
    with problems["logistic"][0], pytest.raises(ValueError, match=message):
        cls(**settings)


@pytest.mark.parametrize("settings", [{"ratio": 0.0}, {"ratio": np.inf}, {"sweeps": 0}])
def test_resampling_is_checked(settings):
    with pytest.raises(ValueError, match=f"ImplicitResampling: {next(iter(settings))} must be"):
        ImplicitResampling(**settings)


def test_log(caplog, monkeypatch):
    """What was found, what was chosen, and a better kernel for many parameters."""
    monkeypatch.setattr("pymc_flymc.reporting.PATIENCE", np.inf)  # nothing on what takes long
    rng = np.random.default_rng(9)
    caplog.set_level("INFO", "pymc.flymc")
    for d, advice in ((4, False), (12, True)):
        caplog.clear()
        with pm.Model():
            beta = pm.Normal("beta", 0.0, 1.0, shape=d)
            mu = rng.normal(size=(200, d)) @ beta
            pm.StudentT("y", nu=4.0, mu=mu, sigma=1.0, observed=rng.normal(size=200))
            FireflyMH()
        mode, choice, *advised = caplog.messages
        assert mode.startswith("FireflyMH: posterior mode found in ")
        assert choice.startswith("FireflyMH: conditional moves read the bright rows, about ")
        assert len(advised) == advice
        assert all("FireflyHMC is likely to need fewer rows" in line for line in advised)
