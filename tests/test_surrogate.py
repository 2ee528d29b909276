"""Second derivatives where PyTensor has none, and models that need them: Gaussian processes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from conftest import (
    assert_matches,
    drive,
    log_sigmoid,
    quadrature,
    reference_from_draws,
)
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from pytensor.tensor.math import Prod

from pymc_flymc import FireflyHMC, FireflyMH, UnsupportedModelError
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.graphs.tools import plain_function, write_out_products
from pymc_flymc.reading.flat import Layout, flatten_model
from pymc_flymc.reading.model import read_model


def surrogate_of(model):
    """Surrogate of a model, a point, and statistics of a quadratic."""
    reading, start = read_model(model), model.initial_point()
    layout, none = Layout.of(reading.vars, start), Layout.of([], start)
    (part,) = reading.regressions
    p = part.design.n_coefficients
    graph = flatten_model(
        reading.rest_logp, reading.coefficients, [p], reading.vars, layout, [], none
    )
    rng = np.random.default_rng(0)
    root = rng.normal(size=(p, 2 * p))
    statistics = np.concatenate([[0.0], rng.normal(size=2 * p), (root @ root.T).ravel()])
    return Surrogate(graph, np.empty(0)), 0.3 * rng.normal(size=layout.size), statistics


def smooth(x, y, m, kernel="Matern52", **settings):
    """Logistic regression on a smooth function of x."""
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 5.0, 5.0)
        covariance = getattr(pm.gp.cov, kernel)(1, ls=scale)
        basis = pm.gp.HSGP(m=[m], L=[3.0], cov_func=covariance, **settings)
        pm.Bernoulli("y", logit_p=basis.prior("f", X=x[:, None]), observed=y)
    return model


def smooth_rows(n):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2.0, 2.0, n)
    return x, (rng.random(n) < np.exp(log_sigmoid(np.sin(2.0 * x) + 0.3))).astype(int)


class Square(Op):
    """x squared, with a gradient that has none itself."""

    def __init__(self, n_derivatives):
        self.n_derivatives = n_derivatives

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] ** 2 if self.n_derivatives else 2.0 * inputs[0]

    def pullback(self, inputs, outputs, gradients):
        if not self.n_derivatives:
            raise NotImplementedError
        return [gradients[0] * Square(0)(inputs[0])]


def opaque(square):
    x, y = smooth_rows(60)
    with pm.Model() as model:
        beta, z = pm.Normal("beta", 0.0, 2.0, shape=3), pm.Normal("z", 0.0, 1.0, shape=2)
        pm.Potential("penalty", -pt.sum(square(beta) * pt.exp(0.5 * beta)) - pt.sum(square(z)))
        scaled = pt.concatenate([beta[:1] * pt.sum(square(z)), beta[1:]])
        pm.Bernoulli("y", logit_p=x[:, None] ** np.arange(3) @ scaled, observed=y)
    return model


def test_differences_take_the_place_of_second_derivatives():
    """They agree to the accuracy of central differences, two thirds of the digits."""
    exact, theta, statistics = surrogate_of(opaque(lambda x: x**2))
    other, *_ = surrogate_of(opaque(Square(1)))
    rng = np.random.default_rng(2)
    for _ in range(3):
        v = rng.normal(size=len(theta))
        for name, arguments in {
            "hessian": (theta, statistics),
            "hessian_times": (theta, statistics, v),
            "jacobian": (theta,),
            "pushforward": (theta, v),
        }.items():
            wanted = getattr(exact, name)(*arguments)
            error = 100.0 * np.finfo(float).eps ** (2.0 / 3.0) * np.abs(wanted).max()
            np.testing.assert_allclose(getattr(other, name)(*arguments), wanted, atol=error)
        theta = theta + 0.3 * v


def test_no_gradient_is_explained():
    with pytest.raises(UnsupportedModelError, match="PyTensor has no gradient of the model"):
        surrogate_of(opaque(Square(0)))


def test_products_written_out():
    """The same values, with zeros too; products of no numbers stay."""
    none, x = pt.tensor("none", shape=(2, 0), dtype="float64"), pt.matrix("x", shape=(3, 2))
    graphs = [pt.prod(none, axis=1), pt.prod(x), pt.prod(pt.exp(pt.prod(x, axis=0)))]
    written = write_out_products(graphs)
    assert not any(isinstance(node.op, Prod) for node in toposort(written[1:]))
    values = np.ones((2, 0)), np.array([[1.0, 2.0], [0.0, 3.0], [4.0, 5.0]])
    for before, after in zip(graphs, written, strict=True):
        wanted, found = plain_function([none, x], [before, after])(*values)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize("parametrization", ["centered", "noncentered"])
def test_gaussian_process_is_found(searches, parametrization):
    x, y = smooth_rows(2000)
    anchor = searches(smooth(x, y, 12, parametrization=parametrization))
    assert np.all(np.isfinite(anchor.laplace.factor))
    # The scale's prior has a sd of about a third of it.
    assert 0.2 < np.exp(anchor.theta[0]) < 3.0


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize("step", [pytest.param(FireflyMH, marks=pytest.mark.slow), FireflyHMC])
def test_gaussian_process_by_quadrature(step):
    """A process of one basis function: its scale and a coefficient."""
    x, y = smooth_rows(40)
    signed = (2.0 * y - 1.0) * np.sin(np.pi / 6.0 * (x + 3.0)) / np.sqrt(3.0)
    model = smooth(x, y, 1, kernel="ExpQuad")

    def log_density(points):
        log_scale, coefficient = points.T
        scale = np.exp(log_scale)
        density = np.sqrt(2.0 * np.pi) * scale * np.exp(-0.5 * (np.pi / 6.0 * scale) ** 2)
        eta = (coefficient * np.sqrt(density))[:, None] * signed
        return log_sigmoid(eta).sum(axis=1) - 0.5 * coefficient**2 - 5.0 * log_scale - 5.0 / scale

    with model:
        built = step(transitions=20 if step is FireflyMH else 4)
    draws, _ = drive(built, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(log_density, [-3.0, -8.0], [5.0, 8.0]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Deterministic variables")
def test_gaussian_process_against_nuts():
    x, y = smooth_rows(3000)
    model = smooth(x, y, 20)
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=5)
    reference = pm.sample(tune=1500, draws=5000, nuts_sampler="pymc", **options)

    def draws(idata):
        parts = [idata.posterior[rv.name].to_numpy() for rv in model.free_RVs]
        return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)

    for step in (FireflyMH, FireflyHMC):
        with model:
            built = step()
        ours = pm.sample(step=built, tune=1000, draws=10_000, **options)
        assert_matches(draws(ours), reference_from_draws(draws(reference)))
