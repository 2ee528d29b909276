"""The proofs, in small, and that they can fail; all of them by ``python -m tests.proof``."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from tests.proof import calibrated, combinations, equilibrium
from tests.proof.calibration import KEPT, Calibration, test_model
from tests.proof.combinations import chosen, combination_of
from tests.proof.drift import CHAINS, drift_of, largest_drift, started_chain
from tests.proof.equilibrium import Exact, test_combination
from tests.proof.sequential import STAGES, test_in_stages
from tests.sweep.models import MODELS
from tests.sweep.moves import MOVES, SCHEMES
from tests.sweep.reference import posterior_of


def test_exact_samplers_hardly_ever_fail():
    rng, asked = np.random.default_rng(0), []

    def p_values(n):
        asked.append(n)
        return rng.random(5)

    # At a hundred times the rate of alarms that is used: 20 of 2,000 expected.
    failed = sum(test_in_stages(p_values, 10, 0.01).failed for _ in range(2000))
    assert failed < stats.poisson.isf(1e-6, 20)
    assert set(asked) == {10, 40}


def test_wrong_ones_do():
    assert test_in_stages(lambda n: np.array([0.5, 1e-9]), 10, 1e-6).stages == 1
    found = test_in_stages(lambda n: np.array([0.03]), 10, 1e-3)
    assert found.failed and 1 < found.stages <= STAGES  # suspicious each time


def test_exact_draws_are_the_posterior_s():
    model = MODELS["poisson/plain"].whole
    posterior = posterior_of(model)
    draws = Exact(model, posterior).draw(np.random.default_rng(1), 20_000)
    for d, x in enumerate(draws.T):
        levels = np.linspace(0.01, 0.99, 99)
        below = np.mean(x[:, None] < posterior.quantiles(d, levels), axis=0)
        assert np.max(np.abs(below - levels)) < 4.0 * 0.5 / np.sqrt(len(x))


def test_combinations_are_of_all_kinds(monkeypatch):
    """Of few models already: what was not among those before comes first; another seed, others."""
    few = {"poisson", "bernoulli-logit", "student-t"}
    monkeypatch.setattr(
        combinations, "MODELS", {k: m for k, m in MODELS.items() if k.split("/")[0] in few}
    )
    found = [[one.name for model in chosen(seed, 8) for one in model] for seed in (1, 2)]
    assert [len(names) for names in found] == [24, 24] and set(found[0]) != set(found[1])
    kernels = {
        one.moves.settings.get("kernel", one.moves.step.__name__)
        for one in map(combination_of, found[0])
    }
    assert len(kernels) >= 5
    assert set(SCHEMES) < {name.split("/")[-1] for name in found[0]}
    assert len({name.split("/")[2] for name in found[0]}) >= 5


@pytest.mark.parametrize(
    "name",
    [
        "poisson/plain/Taylor/joint/own",
        pytest.param("poisson/plain/Taylor/surrogate/own", marks=pytest.mark.slow),
    ],
)
def test_exact_draws_stay_exact(name, monkeypatch):
    one = combination_of(name)
    posterior = posterior_of(one.model.whole)
    found = test_combination(one, posterior, 1000, 1e-6, 0)
    assert not found.failed, found
    # A step with the wrong density: chains begin exactly, and are a little off in the end.
    drawn = Exact.draw

    def draw_elsewhere(self, rng, n):
        elsewhere.append(not elsewhere or not elsewhere[-1])
        return drawn(self, rng, n) + 0.3 * np.sqrt(posterior.variance) * elsewhere[-1]

    elsewhere: list[bool] = []
    monkeypatch.setattr(Exact, "draw", draw_elsewhere)
    monkeypatch.setattr(equilibrium, "TRANSITIONS", 0)
    monkeypatch.setattr(equilibrium, "MOVED", -1.0)
    assert test_combination(one, posterior, 1000, 1e-6, 0).failed


@pytest.mark.slow
def test_calibration():
    assert not test_model("counts", 0, 4, 1e-6).failed


@pytest.mark.parametrize("wrong", [None, "width", "place", "data"])
def test_what_is_not_calibrated(wrong, monkeypatch):
    """Of draws of a known posterior, that of a normal mean, by themselves."""

    def sample(self, outcomes):
        y, n = outcomes["y"], len(outcomes["y"])
        mean, sd = y.sum() / (n + 1), (n + 1) ** -0.5
        if wrong == "data":
            mean, sd = 0.0, 1.0  # the prior: right of the parameter, and wrong of the likelihood
        sd, mean = sd * (1.5 if wrong == "width" else 1.0), mean + 0.7 * sd * (wrong == "place")
        return [{"m": x} for x in self.rng.normal(mean, sd, KEPT)]

    def write(y=None):
        pm.Normal("y", pm.Normal("m"), 1.0, shape=8, observed=y)

    monkeypatch.setitem(calibrated.MODELS, "normal", calibrated.Calibrated(write))
    monkeypatch.setattr(Calibration, "sample", sample)
    assert test_model("normal", 0, 200, 1e-3).failed == (wrong is not None)


def test_all_kernels_are_looked_at():
    """Each core kind of moves, and what is for groups, among the chains that may drift."""
    of_chains = {name.split("/")[-1] for name in CHAINS}
    assert of_chains >= {name for name, moves in MOVES.items() if moves.core} | {"local"}


@pytest.mark.parametrize(
    "name",
    [
        "poisson/plain/Taylor/joint",
        *(pytest.param(each, marks=pytest.mark.slow) for each in CHAINS[4:]),
    ],
)
def test_nothing_drifts(name):
    rng = np.random.default_rng(0)
    chain = started_chain(name, rng)
    chain.start_at(rng, chain.state.theta.copy())
    assert largest_drift(chain, rng, 200_000) < 1e-12
    chain.bright.log_factor[:] += 1e-9  # what is kept is looked at
    chain.state.log_density[0] += 1e-9
    assert drift_of(chain) > 1e-11  # relative, of densities of some ten
