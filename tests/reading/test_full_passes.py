"""What reads all rows at each draw nevertheless, and what is said about it."""

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_flymc import FireflyMH, JaakkolaJordan
from pymc_flymc.reading.flat import Layout, flatten_model
from pymc_flymc.reading.model import FullPass, read_model, warn_of_full_passes
from pymc_flymc.steps import running
from tests.support.steps import drive

N = 2000
X = np.random.default_rng(0).normal(size=(N, 2))
Y = (np.arange(N) % 3 == 0).astype(int)


def model_with(part):
    """Logistic regression, and what `part` adds to it, given its coefficients and the data."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        part(b, pm.Data("X", X))
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
    return model


def loop(b, data):
    totals = pytensor.scan(
        lambda row, total, b: total + pt.dot(row, b), [data], pt.zeros(()), b, return_updates=False
    )
    pm.Potential("loop", totals[-1])


FULL = {
    "potential": (lambda b, data: pm.Potential("w", pt.dot(data, b).sum()), "the potential 'w'"),
    "einsum": (
        lambda b, data: pm.Potential("w", pt.einsum("ij,j->i", data, b).sum()),
        "the potential 'w'",
    ),
    "loop": (loop, "the potential 'loop'"),
    "prior": (lambda b, data: pm.Normal("c", pt.dot(data, b).mean(), 1.0), "the prior of 'c'"),
    "few rows": (
        lambda b, data: pm.Normal("o", pt.dot(data, b).mean(), 1.0, observed=[0.5]),
        "the observed variable 'o'",
    ),
}


@pytest.mark.parametrize("case", FULL)
def test_full_passes_are_found(case):
    part, what = FULL[case]
    (found,) = read_model(model_with(part)).full_passes
    assert found.what == what
    assert found.size == N * (2 if case == "loop" else 1)


def test_full_passes_of_coefficients_are_found():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        scale = pt.exp(pt.dot(pt.constant(X[:1500]), b)).mean()
        pm.Bernoulli("y", logit_p=X @ (b / scale), observed=Y)
    (found,) = read_model(model).full_passes
    assert found.what == "the coefficients of 'y'" and found.size == 1500


CHEAP = {
    "constant": lambda b, data: pm.Potential("w", pt.sum(data**2)),
    "sums": lambda b, data: pm.Potential("w", b[0] * data.sum() + pt.dot(data.mean(axis=0), b)),
    "products": lambda b, data: pm.Potential("w", -pt.dot(b, pt.dot(pt.dot(data.T, data), b))),
    "many parameters": lambda b, data: pm.Normal("a", b[0], pm.HalfNormal("tau"), shape=N // 2),
}


@pytest.mark.parametrize("case", CHEAP)
def test_what_costs_no_pass_is_not_warned_of_and_reads_no_data(case):
    model = model_with(CHEAP[case])
    reading = read_model(model)
    assert not reading.full_passes
    start = model.initial_point()
    layout = Layout.of(reading.vars, start)
    w = reading.coefficients[0]
    graph = flatten_model(
        reading.prior_logp, [w], [2], reading.vars, layout, [], Layout((), (), ())
    )
    # Data that stayed in the graph would be read whenever it is compiled, and travel with it.
    read = [v.data.size for v in ancestors([graph.prior]) if isinstance(v, Constant)]
    assert max(read, default=0) < N
    theta = layout.ravel(start)
    rest = [v for v in model.basic_RVs + model.potentials if v.name != "y"]
    expected = model.compile_logp(vars=rest, mode="FAST_COMPILE")(start)
    assert graph.prior.eval({graph.theta: theta}, mode="FAST_COMPILE") == pytest.approx(expected)


@pytest.fixture(scope="module")
def step_and_warnings():
    """A step on a model with a potential and a Deterministic of the size of the data."""

    def parts(b, data):
        eta = pm.Deterministic("eta", pt.dot(data, b))
        pm.Potential("w", -1e-5 * pt.sum(pt.cos(eta[:, None] * np.arange(100.0))))

    model = model_with(parts)
    with model, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = FireflyMH(bound=JaakkolaJordan(), transitions=1)
    return model, step, caught


def test_step_says_what_a_full_pass_takes(step_and_warnings):
    caught = [w for w in step_and_warnings[-1] if w.category is UserWarning]
    (warning,) = caught  # of the potential only: nobody computes the Deterministic so far
    assert "the potential 'w' (200,000 numbers)" in str(warning.message)
    assert "at each update of the parameters, in about" in str(warning.message)
    assert warning.filename == __file__


def test_little_time_is_not_warned_of():
    passes, names = [FullPass("the coefficients of 'y'", 3)], ["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_full_passes(passes, names, lambda: 7.1e-6)
    with pytest.warns(UserWarning, match="in about 0.71 ms"):
        warn_of_full_passes(passes, names, lambda: 7.1e-4)


def test_deterministics_are_warned_of_where_they_are_recorded(step_and_warnings):
    model, step, _ = step_and_warnings
    options = dict(tune=0, draws=2, chains=1, cores=1, progressbar=False, quiet=True)

    def warned(**settings):
        with model, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pm.sample(step=step, compute_convergence_checks=False, **options, **settings)
        return [w for w in caught if "Deterministic variables" in str(w.message)]

    (warning,) = warned()
    assert "['eta'] have a value for each of the 2,000 rows" in str(warning.message)
    assert warning.filename == __file__
    assert "compute_p" not in str(warning.message)
    assert len(warned(var_names=["b", "eta"])) == 1
    assert not warned(var_names=["b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drive(step, model.initial_point(), tune=0, draws=1)


def left_out(part, vars=("b",)):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_model(model_with(part), list(vars))
    return [str(w.message) for w in caught if "vars leaves out" in str(w.message)]


def test_variables_left_to_nuts():
    (message,) = left_out(lambda b, data: pm.HalfNormal("tau"))
    assert "vars leaves out ['tau']" in message and "NUTS for ['tau']" in message
    assert "each evaluation reads all 2,000 rows" in message and "Add ['tau'] to vars" in message
    assert not left_out(lambda b, data: pm.HalfNormal("tau"), ["b", "tau"])


def test_discrete_variables_left_to_pymc():
    """Metropolis steps evaluate what depends on their variables, Gibbs steps the whole model."""
    assert not left_out(lambda b, data: pm.Poisson("k", 2.0))
    (message,) = left_out(lambda b, data: pm.Bernoulli("z", 0.5, shape=2))
    assert "a Gibbs step for ['z']" in message and "Add" not in message
    (message,) = left_out(lambda b, data: pm.Categorical("c", [0.2, 0.3, 0.5]))
    assert "a Gibbs step for ['c']" in message


def test_probabilities_of_ordered_levels_are_named(monkeypatch):
    """PyMC records them unless it is told not to."""
    with pm.Model() as model:
        pm.OrderedLogistic("y", X @ pm.Normal("b", shape=2), cutpoints=[-1.0, 1.0], observed=Y)
    monkeypatch.setattr(running, "arguments_of_sample", dict)
    with pytest.warns(UserWarning, match=r"\['y_probs'\].*pm.OrderedLogistic has compute_p=False"):
        running.warn_of_recording(read_model(model).per_row)
