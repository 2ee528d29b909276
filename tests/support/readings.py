"""Readings of models, compared with PyMC's own densities."""

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.agreement.comparison import check_agreement
from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.likelihood import outcome
from pymc_flymc.reading.flat import Layout, flatten_model
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.expansion import LikelihoodExpansion
from pymc_flymc.regression.matrices import SymmetricMatrix


def value_of(graph, point):
    inputs = free_inputs([graph])
    return plain_function(inputs, graph)(*[point[v.name] for v in inputs])


def check_reading(model, point, vars=None):
    """Compare the reading's two parts with the model's own, at a point of value variables."""
    reading = read_model(model, vars)
    point = {k: np.asarray(v, dtype=float) for k, v in point.items()}
    rv = model[reading.regressions[0].name]
    w = value_of(reading.coefficients[0], point)
    (eta,) = reading.regressions[0].design.predictor(w).T
    graph = LIKELIHOODS[0].log_likelihood([pt.constant(eta)], pt.constant(reading.regressions[0].y))
    value = plain_function([], graph)()
    np.testing.assert_allclose(value, value_of(model.logp(vars=[rv], sum=False)[0], point))
    others = [v for v in model.basic_RVs + model.potentials if v is not rv]
    rest = value_of(reading.prior_logp, point)
    expected = sum(np.sum(value_of(f, point)) for f in model.logp(vars=others, sum=False))
    np.testing.assert_allclose(rest, expected)
    np.testing.assert_allclose(rest + value.sum(), value_of(model.logp(), point))
    return reading, eta


def density_of(reading, point):
    """Add up rows and rest of a reading."""
    total = value_of(reading.prior_logp, point)
    for part, graph in zip(reading.regressions, reading.coefficients, strict=True):
        w = value_of(graph, point)
        columns = [*part.design.predictor(w).T, *w[len(w) - part.design.n_nuisances :]]
        y = [pt.constant(column.astype(float)) for column in np.atleast_2d(part.y.T)]
        arguments = [pt.constant(column) for column in columns]
        rows = part.likelihood.log_likelihood(arguments, outcome(part.likelihood, y))
        total += rows.sum().eval()
    return total


def check_density(model, reading, density=None):
    """Compare rows and rest of a reading with the model's own density, but for a constant."""
    start, rng, differences = model.initial_point(), np.random.default_rng(3), []
    density = model.compile_logp() if density is None else density
    for _ in range(3):
        point = {key: v + 0.3 * rng.normal(size=np.shape(v)) for key, v in start.items()}
        differences.append(density_of(reading, point) - density(point))
    assert np.isfinite(differences).all()
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9, atol=1e-9)


def compare(model, reading, spread=1.0):
    """Compare a reading with its model around the start, `spread` wide in unconstrained units."""
    layout, others = Layout.of(reading.vars, model.initial_point()), Layout((), (), ())
    theta = layout.ravel(model.initial_point())
    sizes = [each.design.n_coefficients for each in reading.regressions]
    own = reading.prior_logp, reading.coefficients, sizes, reading.vars
    graph = flatten_model(*own, layout, [], others)
    origin = [
        LikelihoodExpansion(0.0, np.zeros(n), SymmetricMatrix(np.eye(n)), np.zeros(n))
        for n in sizes
    ]
    parts = tuple(AnchorPart(np.eye(len(each.w)), each) for each in origin)
    anchor = Anchor(dense_geometry(theta, spread * np.eye(len(theta))), parts, 0.0)
    check_agreement(model, reading, graph, anchor, (layout, others), theta, np.empty(0))
