"""Products of whole numbers are those of PyMC's model, or are refused if it has no one value."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.reading.predictor import read_predictor, split_predictor

N = 40
rng = np.random.default_rng(0)
b, beta = pt.scalar("b", dtype="float64"), pt.vector("beta", shape=(2,), dtype="float64")


def data():
    return {
        "x": rng.normal(size=N).astype(np.float32),
        "X": rng.normal(size=(N, 2)).astype(np.float32),
        "k": rng.integers(90, 127, N).astype(np.int8),
        "u": rng.integers(100, 256, N).astype(np.uint8),
        "m": rng.integers(10**5, 10**6, N).astype(np.int32),
        "t": rng.random(N) < 0.5,
    }


FINE = {
    "float32 and int8": lambda x, k, **_: b * x * k,
    "float32 twice": lambda x, X, **_: b * x * X[:, 0] / X[:, 1],
    "int8 and uint8": lambda k, u, **_: b * k * u,
    "uint8 twice": lambda u, **_: u * b * u,
    "int32 twice": lambda m, **_: b * m * m,
    "truth values": lambda u, t, **_: b * u * t * u,
    "a product by a column": lambda X, k, **_: (X @ beta) * k,
    "divided": lambda u, k, **_: (b * u) / k / u,
    "constants": lambda x, **_: (x * b) * np.int8(100) * np.int8(100),
    "divided by a constant": lambda X, k, **_: (X @ beta) * k / 100,
    "minus a constant": lambda x, **_: np.uint8(200) * (3.0 - x * b),
    "a column": lambda u, **_: (u[:, None] * beta).sum(1) * u,
    "small numbers": lambda u, t, **_: b * (u * t) + b * (u // 4 + u // 4) + b * (u // 200) ** 2,
}


def graphs(build, as_data):
    made = data()
    if as_data:
        import pytensor

        made = {name: pytensor.shared(values, name) for name, values in made.items()}
    else:
        made = {name: pt.as_tensor_variable(values) for name, values in made.items()}
    return build(**made)


@pytest.mark.parametrize("as_data", [False, True], ids=["constants", "containers"])
@pytest.mark.parametrize("build", FINE.values(), ids=FINE.keys())
def test_factors_of_any_types(build, as_data):
    eta = graphs(build, as_data)
    predictor = read_predictor(eta, N, "y", {})
    both = plain_function([b, beta], [eta, predictor.coefficients])
    expected, w = both(0.37, np.array([0.3, -1.2]))
    found = predictor.design.predictor(w)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-13 if eta.dtype == "float64" else 1e-6)


OVER = {
    "uint8 first": (lambda u, **_: u * u * b, "multiply of .* in uint8"),
    "int8 first": (lambda k, **_: b * (k * k), "multiply of .* in int8"),
    "int32 first": (lambda m, **_: b * (m * m), "multiply of .* in int32"),
    "a difference": (lambda u, **_: b * (u - np.uint8(200)), "subtract of .* in uint8"),
    "a sum": (lambda u, **_: b * (u + u), "add of .* in uint8"),
    "of truth values": (lambda u, **_: b * ((u > 0) + (u > 1)), "add of .* in bool"),
    "negative": (lambda u, **_: b * -u, "negative of .* in uint8"),
    "a square": (lambda u, **_: b * u**2, "power of .* in uint8"),
    "in a function": (lambda u, **_: b * pt.exp(1e-5 * (u * u)), "multiply of .* in uint8"),
    "of an index": (lambda k, **_: pt.repeat(beta, 200)[abs(k + k)] * b, "add of .* in int8"),
}


@pytest.mark.parametrize(("build", "message"), OVER.values(), ids=OVER.keys())
def test_products_beyond_their_type_are_refused(build, message):
    """PyTensor has one value for the graph as it stands and another once it is rewritten."""
    with pytest.raises(ValueError, match=rf"predictor of 'y' computes {message}.*floats"):
        read_predictor(graphs(build, True), N, "y", {})


def test_of_other_rows(monkeypatch):
    """Rows of a source may leave a type that those of the model stay within."""
    import pytensor

    u = pytensor.shared(np.full(N, 9, np.uint8), "u")
    split_predictor(u * u * b, N, "y", {}, {u: np.full(N, 15, np.uint8)})
    with pytest.raises(ValueError, match="multiply of 16, 16 in uint8"):
        split_predictor(u * u * b, N, "y", {}, {u: np.full(N, 16, np.uint8)})


def test_row_data():
    """A number of trials that is computed from data."""
    from pymc_flymc.reading.model import read_model

    k = np.full(N, 120, np.uint8)
    with pm.Model() as model:
        trials = pm.Data("k", k) + pm.Data("more", k + np.uint8(60))
        pm.Binomial("y", n=trials, logit_p=pm.Normal("a") * k, observed=np.full(N, 3))
    with pytest.raises(ValueError, match="'y' computes add of 120, 180 in uint8"):
        read_model(model)


def test_observed_values():
    """A sum of counts that leaves their type."""
    from pymc_flymc.reading.model import read_model

    k = np.full(N, 200, np.uint8)
    with pm.Model() as model:
        total = pm.Data("k", k) + pm.Data("more", k)
        pm.Poisson("y", mu=pm.math.exp(pm.Normal("a") * np.arange(N)), observed=total)
    with pytest.raises(ValueError, match="observed variable 'y' computes add of 200, 200 in uint8"):
        read_model(model)


def test_weights():
    """A product of counts that leaves their type."""
    from pymc_flymc import weighted
    from pymc_flymc.reading.model import read_model

    k = np.full(N, 20, np.uint8)
    with pm.Model() as model:
        w = pm.Data("k", k)
        dist = pm.Poisson.dist(mu=pm.math.exp(pm.Normal("a") * np.arange(N)))
        weighted("y", dist, weights=w * w, observed=np.ones(N))
    with pytest.raises(ValueError, match="a weight of 'y' computes multiply of 20, 20 in uint8"):
        read_model(model)


@pytest.mark.parametrize("n", [5, 1500])
def test_potentials(n):
    """However long: of numbers beyond a length, products are taken before all else."""
    from pymc_flymc.steps.setup import read

    with pm.Model() as model:
        a, w = pm.Normal("a"), pm.Data("k", np.full(n, 20, np.uint8))
        pm.Potential("p", (-0.5 * (w * w) * pt.sqr(a - np.linspace(-1.0, 1.0, n))).sum())
        pm.Poisson("y", mu=pm.math.exp(a * np.linspace(-1.0, 1.0, N)), observed=np.ones(N))
    message = "priors and potentials computes multiply of 20, 20 in uint8"
    with pytest.raises(ValueError, match=message):
        read(model, None, None, None, "auto")
