"""Which of several likelihoods are taken."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.model import ENOUGH_ROWS, read_model
from pymc_flymc.reading.variables import is_constant
from tests.support.several import shop


def test_likelihoods_with_enough_rows_are_taken():
    model = shop(ENOUGH_ROWS, ENOUGH_ROWS + 200)
    with model:
        pm.Bernoulli("few", logit_p=model["b"][0], observed=np.ones(ENOUGH_ROWS - 1, int))
    reading = read_model(model)
    assert [each.what for each in reading.full_passes] == ["the observed variable 'few'"]
    assert [part.name for part in reading.regressions] == ["spent", "bought"]  # the largest first
    assert [part.design.n_coefficients for part in reading.regressions] == [5, 3]
    point = model.initial_point()
    rest = model.compile_fn(reading.prior_logp, inputs=model.value_vars, point_fn=False)
    expected = model.compile_logp(vars=[*model.free_RVs, model["few"]])(point)
    assert rest(*(point[v.name] for v in model.value_vars)) == pytest.approx(expected, rel=1e-12)


def test_few_rows_of_an_unreadable_form_are_no_error():
    with shop(ENOUGH_ROWS, ENOUGH_ROWS - 1) as model:
        pm.Bernoulli("odd", p=pm.Beta("p", 1.0, 1.0), observed=[1, 0])
    reading = read_model(model)
    assert [part.name for part in reading.regressions] == ["bought"]
    assert [each.what for each in reading.full_passes] == ["the observed variable 'spent'"]


def test_observed_variables_that_depend_on_nothing_sampled_are_left_out():
    """As where all of a causal model is observed: their densities are numbers."""
    x, y = np.linspace(-1.0, 1.0, 2 * ENOUGH_ROWS), np.zeros(2 * ENOUGH_ROWS)
    with pm.Model() as model:
        cause = pm.Normal("cause", 0.0, 1.0, shape=len(x))
        mean = pm.Normal("mean")
        second = pm.Normal("second", mean + cause, 1.0, shape=len(x))
        pm.Normal("effect", pm.Normal("b") * cause + second, 1.0, shape=len(x))
    model = pm.observe(model, {"cause": x, "second": x, "effect": y})
    reading = read_model(model)
    assert {part.name for part in reading.regressions} == {"second", "effect"}
    assert not reading.full_passes
    rest = model.compile_fn(reading.prior_logp, inputs=model.value_vars, point_fn=False)
    assert rest(0.5, 2.0) == pytest.approx(-np.log(2 * np.pi) - 0.125 - 2.0)


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


@pytest.mark.parametrize("largest", ["y", "z"])
def test_likelihoods_of_another_step_are_no_part_of_this_one(largest):
    """Their densities are numbers to a step that owns nothing of what they depend on."""
    n = {"y": 30, "z": 20} if largest == "y" else {"y": 20, "z": 30}
    with pm.Model() as model:
        a = pm.Normal("a")
        b = pm.Normal("b", a)
        pm.Bernoulli("y", logit_p=a * np.ones(n["y"]), observed=np.ones(n["y"], int))
        pm.Poisson("z", mu=pm.math.exp(b * np.ones(n["z"])), observed=np.ones(n["z"], int))
    for vars, name in (("a", "y"), ("b", "z")):
        with pytest.warns(UserWarning, match="vars leaves out"):
            reading = read_model(model, [vars])
        assert [part.name for part in reading.regressions] == [name] and not reading.full_passes
        rest = model.compile_fn(reading.prior_logp, inputs=model.value_vars, point_fn=False)
        prior = model.compile_logp(vars=model.free_RVs)({"a": 0.3, "b": 2.0})
        assert rest(0.3, 2.0) == pytest.approx(prior, rel=1e-12)


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


def test_what_is_in_an_interval_of_a_variable_moves_with_it():
    """Of a scale that another step samples the value is all that matters, not its prior."""
    with pm.Model() as model:
        low = pm.Normal("low")
        between = pm.Uniform("between", low, low + 4.0)
        scale = pm.HalfNormal("scale", pm.math.exp(low))
        first = pm.Poisson("first", pm.math.exp(between), observed=[3, 4])
        second = pm.Normal("second", 0.0, scale, observed=[3.0, 4.0])
    owned = [model.rvs_to_values[low]]
    assert not is_constant(model, first, owned)
    assert is_constant(model, second, owned)
