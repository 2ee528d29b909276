"""The proofs, in small, and that they can fail; all of them by ``python -m tests.proof``."""

import numpy as np
import pytest
from scipy import stats

from tests.proof import equilibrium
from tests.proof.drift import drift_of, largest_drift
from tests.proof.equilibrium import Exact, begin_exactly, test_combination
from tests.proof.sequential import STAGES, test_in_stages
from tests.sweep.combinations import combinations_of
from tests.sweep.models import MODELS
from tests.sweep.reference import posterior_of


def combination(name):
    model = MODELS["/".join(name.split("/")[:2])]
    (found,) = [each for each in combinations_of(model) if each.name == name]
    return found


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


@pytest.mark.parametrize(
    "name",
    [
        "poisson/plain/Taylor/joint",
        pytest.param("poisson/plain/Taylor/surrogate", marks=pytest.mark.slow),
    ],
)
def test_exact_draws_stay_exact(name, monkeypatch):
    chosen = combination(name)
    posterior = posterior_of(chosen.model.whole)
    found = test_combination(chosen, posterior, 1000, 1e-6)
    assert not found.failed, found
    # A step with the wrong density: chains begin exactly, and are a little off in the end.
    begun = equilibrium.begin_exactly

    def begin_elsewhere(chain, rng, theta):
        begun(chain, rng, theta + 0.3 * np.sqrt(posterior.variance))

    monkeypatch.setattr(equilibrium, "begin_exactly", begin_elsewhere)
    monkeypatch.setattr(equilibrium, "TRANSITIONS", 0)
    assert test_combination(chosen, posterior, 1000, 1e-6).failed


@pytest.mark.parametrize(
    "name",
    [
        "poisson/plain/Taylor/joint",
        pytest.param("bernoulli-logit/plain/JaakkolaJordan/slice-random", marks=pytest.mark.slow),
    ],
)
def test_nothing_drifts(name):
    chosen, rng = combination(name), np.random.default_rng(0)
    step = chosen.step()
    step.setup_chain(rng, 0, 1)
    step.step(chosen.model.sampled.initial_point())
    begin_exactly(step.chain, rng, step.chain.state.theta.copy())
    assert largest_drift(step.chain, rng, 200_000) < 1e-12
    step.chain.bright.log_factor[:] += 1e-9  # what is kept is looked at
    step.chain.state.log_density[0] += 1e-9
    assert drift_of(step.chain) > 1e-10
