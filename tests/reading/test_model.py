"""Reading models: which variable has the rows, how its family is written, what the rest is."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pymc.dims
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit

from pymc_flymc import weighted
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.model import read_model
from tests.support.readings import check_reading, compare, value_of

N = 20
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
Y = (RNG.random(N) < 0.5).astype(np.int64)
COORDS = {"row": range(N), "feature": list("abc")}
sigmoid, exp = pm.math.sigmoid, pm.math.exp


def test_deterministic_per_row_is_found_and_read():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Deterministic("odds", exp(b))
        p = pm.Deterministic("p", sigmoid(X @ b))
        pm.Bernoulli("y", p=p, observed=Y)
    assert read_model(model).per_row == {"p": len(Y)}


def test_deterministic_of_data_container_is_found():
    with pm.Model(coords=COORDS) as model:
        b = pm.Normal("b", dims="feature")
        eta = pm.Deterministic("eta", pm.Data("X", X, dims=("row", "feature")) @ b)
        pm.Bernoulli("y", logit_p=eta, observed=Y)
    assert read_model(model).per_row == {"eta": len(Y)}


def test_hierarchical_model():
    """Non-centred effects, dims, data containers, transforms, a potential, another observed."""
    z = np.array([0.2, -0.1])
    with pm.Model(coords=COORDS) as model:
        data = pm.Data("X", X, dims=("row", "feature"))
        mu = pm.Normal("mu", 1, 2)
        tau = pm.HalfNormal("tau", 1.5)
        raw = pm.Normal("raw", dims="feature")
        b = pm.Deterministic("b", mu + tau * raw, dims="feature")
        c = pm.Uniform("c", -3, 3)
        pm.Normal("z", mu, tau, observed=z)
        pm.Potential("pot", -((c - mu) ** 2))
        pm.Bernoulli("y", logit_p=data @ b + c, observed=pm.Data("obs", Y), dims="row")
    point = {"mu": 0.4, "tau_log__": -0.5, "raw": np.array([1.0, 0.0, -2.0]), "c_interval__": 0.7}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        reading, eta = check_reading(model, point)
    tau, c = np.exp(-0.5), -3 + 6 * expit(0.7)
    np.testing.assert_allclose(eta, X @ (0.4 + tau * point["raw"]) + c)
    assert np.shares_memory(reading.regressions[0].design.X, model["X"].get_value(borrow=True))
    # The rest, written out.
    expected = (
        stats.norm.logpdf(0.4, 1, 2)
        + stats.halfnorm.logpdf(tau, scale=1.5)
        - 0.5
        + stats.norm.logpdf(point["raw"]).sum()
        + np.log(expit(0.7) * (1 - expit(0.7)))
        + stats.norm.logpdf(z, 0.4, tau).sum()
        - (c - 0.4) ** 2
    )
    np.testing.assert_allclose(value_of(reading.prior_logp, point), expected)


@pytest.mark.slow
def test_vector_transforms_with_dims():
    with pm.Model(coords=COORDS) as model:
        w = pm.Dirichlet("w", np.ones(3), dims="feature")
        c = pm.Normal("c", dims="feature", transform=pm.distributions.transforms.ordered)
        pm.Bernoulli("y", logit_p=X @ w + X @ c, observed=Y)
    _, eta = check_reading(model, {"w_simplex__": [0.3, -1], "c_ordered__": [-1, 0.2, 0.1]})
    assert eta.shape == (N,)


def test_intercept_only():
    with pm.Model() as model:
        c = pm.Normal("c")
        pm.Bernoulli("y", logit_p=c, observed=Y)
    reading, eta = check_reading(model, {"c": 0.7})
    assert reading.regressions[0].design.X.shape == (N, 0)
    np.testing.assert_allclose(eta, 0.7)


def test_coefficients_of_no_columns():
    with pm.Model() as model:
        eta = pm.Normal("c") + X[:, :0] @ pm.Normal("b", shape=0)
        pm.Bernoulli("y", logit_p=eta, observed=Y)
    compare(model, read_model(model))


@pytest.mark.parametrize("data", [False, True], ids=["array", "pm.Data"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "bool", "float32", "float64"])
def test_observed_dtypes(dtype, data):
    y = Y.astype(dtype)
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=pm.Data("obs", y) if data else y)
    observed = read_model(model).regressions[0].y
    assert observed.dtype == np.int8
    np.testing.assert_array_equal(observed, Y)


def test_pandas_input():
    frame = pd.DataFrame(X, columns=list("abc"))
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        c = pm.Normal("c")
        eta = pm.math.dot(frame, b) + c * frame["a"].to_numpy()
        pm.Bernoulli("y", logit_p=eta, observed=pd.Series(Y))
    _, eta = check_reading(model, {"b": [1, 2, 3], "c": 4})
    np.testing.assert_allclose(eta, X @ [1, 2, 3] + 4 * X[:, 0])


def test_impossible_observed_values():
    y = Y.astype(float)
    y[[4, 9]] = [0.5, 2]
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=pm.Data("obs", y))
    with pytest.raises(ValueError, match=r"2 values that are not 0 or 1, first in row 4: 0.5"):
        read_model(model)


def simple_model():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        b = pm.Normal("b", mu, shape=3)
        c = pm.HalfNormal("c")
        pm.Bernoulli("y", logit_p=X @ b + c, observed=Y)
    return model


@pytest.mark.filterwarnings("ignore:vars leaves out")
@pytest.mark.parametrize("kind", ["names", "rvs", "values", "tuple"])
def test_vars(kind):
    model = simple_model()
    vars = {
        "names": ["b", "c"],
        "rvs": [model["b"], model["c"]],
        "values": [model.rvs_to_values[model[v]] for v in "bc"],
        "tuple": ("b", model["c"]),
    }[kind]
    reading, _ = check_reading(model, {"mu": 0.1, "b": [1, 2, 3], "c_log__": -1}, vars)
    assert [v.name for v in reading.vars] == ["b", "c_log__"]


def test_single_var():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
    for vars in ("b", b):
        assert read_model(model, vars).vars == [model.rvs_to_values[b]]


def test_vars_that_the_likelihood_needs():
    with pytest.raises(
        UnsupportedModelError, match=r"'y' depends on \['c'\], which this step does"
    ):
        read_model(simple_model(), ["b", "mu"])


def test_vars_not_in_model():
    with pytest.raises(ValueError, match=r"the model has no variables \['d'\]"):
        read_model(simple_model(), ["b", "c", "d"])
    with pytest.raises(ValueError, match="not random variables in the model"):
        read_model(simple_model(), [pt.vector("b")])
    with pytest.raises(ValueError, match="there are no variables to sample"):
        read_model(simple_model(), [])


def test_no_supported_observed():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Gumbel("z", X @ b, 1, observed=Y)
        pm.DiscreteUniform("k", 0, 9, observed=Y)
    with pytest.raises(
        UnsupportedModelError,
        match=r"'z' is pm.Gumbel, 'k' is pm.DiscreteUniform\. Leave out step=",
    ):
        read_model(model)
    with pm.Model() as model:
        pm.Normal("b")
    with pytest.raises(UnsupportedModelError, match="supports: nothing is observed"):
        read_model(model)


def test_mixtures_among_the_priors():
    """A posterior of several modes looks like one of one mode to each chain."""
    parts = [pm.Normal.dist(0.0, 0.05), pm.Normal.dist(0.0, 2.0)]
    with pm.Model() as model:
        b = pm.Mixture("b", w=[0.5, 0.5], comp_dists=parts, shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
    with pytest.warns(UserWarning, match=r"the priors of \['b'\] are mixtures.*initvals="):
        read_model(model)


def test_dims_module_is_refused():
    with pm.Model(coords=COORDS) as model:
        b = pm.dims.Normal("b", dims="feature")
        eta = (pm.dims.as_xtensor(X, dims=("row", "feature")) * b).sum("feature")
        pm.dims.Bernoulli("y", logit_p=eta, observed=pm.dims.as_xtensor(Y, dims=("row",)))
    with pytest.raises(UnsupportedModelError, match=r"'y' is pymc.dims.Bernoulli\. Leave out"):
        read_model(model)


def test_a_variable_of_the_dims_module_is_named():
    with pm.Model(coords=COORDS) as model:
        b = pymc.dims.Normal("b", 0.0, 1.0, dims="feature")
        pm.Bernoulli("y", logit_p=X @ b.values, observed=Y)
    with pytest.raises(UnsupportedModelError, match=r"depends on 'b', a variable of pymc\.dims"):
        read_model(model)


def test_largest_of_several_is_taken():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("small", p=p, observed=[1])
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        reading, _ = check_reading(model, {"b": [1, 0, 2], "p_logodds__": 0.3})
    assert reading.regressions[0].name == "y"


def test_other_large_observed_is_found():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Normal("z", b[0], 1, observed=np.arange(N // 2))
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
    (found,) = read_model(model).full_passes
    assert found.what == "the observed variable 'z'" and found.size == N // 2


@pytest.mark.parametrize("with_weights", [False, True])
def test_missing_values(with_weights):
    y = np.ma.masked_array(Y, mask=np.arange(N) == 3)
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if with_weights:
                weighted("y", pm.Bernoulli.dist(logit_p=X @ b), np.ones(N), observed=y)
            else:
                pm.Bernoulli("y", logit_p=X @ b, observed=y)
    with pytest.raises(UnsupportedModelError, match=r"'y' has missing values.*drop these rows"):
        read_model(model, ["b"])


def test_discrete_variables():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        k = pm.Poisson("k", 2)
        mix = pm.Bernoulli("mix", 0.5)
        c = pm.Normal("c", mix)
        pm.Bernoulli("y", logit_p=X @ b + k + c, observed=Y)
    with pytest.raises(UnsupportedModelError, match=r"and \['k', 'mix'\] are discrete"):
        read_model(model)
    with pytest.raises(UnsupportedModelError, match=r"'y' depends on the discrete variables \['k'"):
        read_model(model, ["b", "c"])


@pytest.mark.filterwarnings("ignore:vars leaves out")
def test_discrete_variable_in_a_prior_can_be_left_out():
    with pm.Model() as model:
        mix = pm.Bernoulli("mix", 0.5)
        b = pm.Normal("b", mix, shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
    assert [v.name for v in read_model(model, "b").vars] == ["b"]


def test_random_variable_outside_the_model_is_refused():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", logit_p=X @ b + pm.Normal.dist(), observed=Y)
    with pytest.raises(UnsupportedModelError, match=r"'y' depends on RNG.*made with \.dist"):
        read_model(model)


def test_minibatch_is_refused():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=Y, total_size=100)
    with pytest.raises(UnsupportedModelError, match=r"'y' is a minibatch \(total_size=\)"):
        read_model(model)


def test_nothing_is_compiled(monkeypatch):
    """Reading runs the graph op by op: no rewrite and no compiled code sees the data."""
    monkeypatch.delattr(pytensor, "function")
    read_model(simple_model())
