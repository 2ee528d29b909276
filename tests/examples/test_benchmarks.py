"""What benchmarks take from the package is there, and their models are built."""

from types import SimpleNamespace

import numpy as np
import pytest

from examples.benchmarks import choice, hierarchies, numpyro_nuts, polya_gamma
from examples.benchmarks.measurement import draws_of, ess_of_slowest
from examples.benchmarks.setup import PARTS, owner_of
from pymc_flymc.sampling.adaptation import HAMILTONIAN, JOINT, SURROGATE
from pymc_flymc.sampling.costs import Costs
from tests.support.comparison import assert_matches, reference_from_draws
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.patches import any_size
from tests.support.steps import sample, step_of


@pytest.mark.parametrize("where", [where for places in PARTS.values() for where in places])
def test_parts_of_the_setup(where):
    owner, name = owner_of(*where)
    assert callable(getattr(owner, name))


@pytest.mark.parametrize(
    ("model", "data", "n_parameters"),
    [
        (hierarchies.bradley_terry, hierarchies.games(5, 40), 6),
        (hierarchies.rasch, hierarchies.answers(8, 5), 14),
        (hierarchies.crossed, hierarchies.ratings(40, 6, 4), 13),
        (hierarchies.intercepts, hierarchies.grouped(40, 6), 18),
        (hierarchies.intercepts, hierarchies.uneven(40, 6), 13),
    ],
)
def test_hierarchies(model, data, n_parameters):
    """Each has a logistic outcome of as many rows, and all effects are parameters."""
    built = model(**data)
    (outcome,) = built.observed_RVs
    assert outcome.eval().shape == (40,)
    assert sum(value.size for value in built.initial_point().values()) == n_parameters


def test_numpyro_has_the_same_models():
    builders = {each.build.__name__ for each in hierarchies.MODELS.values()}
    assert builders == set(numpyro_nuts.STATED)


def target_of(spec, subsamples=True, n_exact=None):
    exact = None if n_exact is None else SimpleNamespace(X=np.zeros((n_exact, 2)))
    return SimpleNamespace(subsamples=subsamples, spec=spec, data=SimpleNamespace(exact=exact))


@pytest.mark.parametrize(
    ("target", "gradients", "cost"),
    [
        (target_of(HAMILTONIAN, subsamples=False), 3.0, 100.0),
        (target_of(HAMILTONIAN), 3.0, 200.0),
        (target_of(JOINT), 0.0, 500.0),
        # Twenty rows in turn for each of three gradients, and for where trajectories begin.
        (target_of(SURROGATE, n_exact=20), 3.0, 80.0 + 5.0 * 20.0),
        (target_of(SURROGATE, n_exact=40), 3.0, 100.0),
    ],
    ids=["all rows", "bright", "fresh", "some exact", "exact"],
)
def test_rows_cost_by_how_they_are_read(target, gradients, cost):
    costs = Costs(seconds=1e-7, bright=2.0, drawn=5.0, evaluation=30.0)
    assert choice.cost_of_queries(costs, target, 100.0, gradients) == cost


def test_costs_of_kernels(monkeypatch, capsys):
    """Each kernel that may be chosen has a line, and each model a regret."""
    rows = logistic_rows(2000, 2)
    monkeypatch.setattr(choice, "SMALL", {"tiny": lambda: logistic_model(*rows)})
    monkeypatch.setattr(choice, "SIMULATED", ())
    monkeypatch.setattr("sys.argv", ["choice"])
    choice.main()
    each, regrets = (part.splitlines()[2:] for part in capsys.readouterr().out.split("\n\n"))
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in each]
    kernels = {spec.name for spec in (JOINT, SURROGATE, HAMILTONIAN)}
    assert {kernel for _, kernel, *_ in cells} == kernels | {"all rows"}
    costs = [float(cost.replace(",", "")) for *_, cost in cells]
    assert all(0.0 < cost < np.inf for cost in costs)
    ((name, regret),) = ([cell.strip() for cell in line.split("|")[1:-1]] for line in regrets)
    assert name == "tiny" and 1.0 <= float(regret) <= max(costs) / min(costs)


@pytest.mark.slow
def test_gibbs_sampling_with_polya_gamma_variables():
    """The posterior is that of the model which other methods sample."""
    pytest.importorskip("polyagamma")
    data = hierarchies.grouped(300, 6, slopes=1)
    with any_size():
        model = hierarchies.intercepts(**data)
        idata = sample(model, step_of(model), draws=4000, tune=500)
    rng = np.random.default_rng(2)
    found = polya_gamma.sample(**data, rng=rng, tune=200, draws=8000)

    def flat(draws):
        return np.concatenate([np.atleast_3d(draws[name]) for name in found], axis=2)

    assert_matches(flat(found), reference_from_draws(flat(draws_of(idata))))


@pytest.mark.slow
def test_slowest_of_many_parameters():
    """Found where there is one; of independent draws none is made up by taking the smallest."""
    rng = np.random.default_rng(5)
    n, n_parameters, correlation = 4000, 1500, 0.6
    draws = rng.normal(size=(1, n, n_parameters))
    of_all = ess_of_slowest({"x": draws})
    innovations = np.sqrt(1.0 - correlation**2) * draws[0, :, 7]
    for t in range(1, n):
        draws[0, t, 7] = correlation * draws[0, t - 1, 7] + innovations[t]
    share = ess_of_slowest({"x": draws}) / n
    expected = (1.0 - correlation) / (1.0 + correlation)
    # Relative error of such an estimate, by a window of five autocorrelation times (Sokal 1997).
    error = np.sqrt(2.0 * (2.0 * 5.0 / expected + 1.0) / (n / 2))
    assert abs(share / expected - 1.0) < 4.0 * error
    # Far from the smallest of all estimates, and from the slow parameter's.
    assert of_all / n > 1.0 - 4.0 * np.sqrt(2.0 * (2.0 * 1.0 + 1.0) / (n / 2))
