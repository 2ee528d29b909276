"""Second derivatives where PyTensor has none, and models that need them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_flymc import UnsupportedModelError
from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.reading.flat import Layout, flatten_model
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.matrices import LARGEST_DENSE, SymmetricMatrix
from tests.support.models import smooth, smooth_rows


def density_of(model):
    """ExpandedDensity of a model, a point, and statistics of a quadratic."""
    reading, start = read_model(model), model.initial_point()
    layout, none = Layout.of(reading.vars, start), Layout.of([], start)
    (part,) = reading.regressions
    p = part.design.n_coefficients
    graph = flatten_model(
        reading.prior_logp, reading.coefficients, [p], reading.vars, layout, [], none
    )
    rng = np.random.default_rng(0)
    root = rng.normal(size=(p, 2 * p))
    curvature = SymmetricMatrix(root @ root.T)
    statistics = np.concatenate([[0.0], rng.normal(size=2 * p), curvature.pack()])
    return ExpandedDensity(graph, np.empty(0)), 0.3 * rng.normal(size=layout.size), statistics


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
    exact, theta, statistics = density_of(opaque(lambda x: x**2))
    other, *_ = density_of(opaque(Square(1)))
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


def affine(mixed, n_columns=4):
    x = np.random.default_rng(3).normal(size=(30, n_columns))
    mixing = 0.1 * np.arange(n_columns**2).reshape(2 * (n_columns,)) if mixed else np.eye(n_columns)
    with pm.Model() as model:
        beta = pm.StudentT("beta", 3.0, sigma=2.0, shape=n_columns)
        pm.Bernoulli("y", logit_p=x @ (mixing @ beta), observed=np.arange(30) < 9)
    return model


@pytest.mark.parametrize(
    "model",
    [affine(False), affine(True), affine(False, LARGEST_DENSE + 1)],
    ids=["", "mixed", "many"],
)
def test_hessian_of_affine_coefficients(model):
    """It is made of matrices, and the same as products with the graph's, which has all in it."""
    density, theta, statistics = density_of(model)
    assert density._constant is not None
    found = density.hessian(theta, statistics)
    for v in np.random.default_rng(2).normal(size=(3, len(theta))):
        wanted = density.hessian_times(theta, statistics, v)
        # Sums of as many terms as there are parameters, in another order.
        rounding = 16 * len(v) * np.finfo(float).eps * (np.abs(found) @ np.abs(v)).max()
        np.testing.assert_allclose(found @ v, wanted, rtol=0.0, atol=rounding)


def test_no_gradient_is_explained():
    with pytest.raises(UnsupportedModelError, match="PyTensor has no gradient of the model"):
        density_of(opaque(Square(0)))


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize("parametrization", ["centered", "noncentered"])
@pytest.mark.slow_cases("noncentered")
def test_gaussian_process_is_found(searches, parametrization):
    x, y = smooth_rows(2000)
    anchor = searches(smooth(x, y, 12, parametrization=parametrization))
    assert np.all(np.isfinite(anchor.geometry.factor))
    # The scale's prior has a sd of about a third of it.
    assert 0.2 < np.exp(anchor.theta[0]) < 3.0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_points_where_numbers_overflow_print_nothing():
    """What raises makes the value -inf, too: NumPy's warnings would be seen as NaN."""
    with pm.Model() as model:
        order = pm.distributions.transforms.ordered
        cuts = pm.Normal("c", 0.0, 2.0, shape=3, transform=order, initval=[-1.0, 0.0, 1.0])
        x, y = smooth_rows(60)
        pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=cuts, observed=y, compute_p=False)
    density, theta, statistics = density_of(model)
    theta[2] = 800.0
    density(theta, statistics)
    assert density.error is None
