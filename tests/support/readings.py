"""Readings of models, compared with PyMC's own densities."""

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.reading.model import read_model


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
    rest = value_of(reading.rest_logp, point)
    expected = sum(np.sum(value_of(f, point)) for f in model.logp(vars=others, sum=False))
    np.testing.assert_allclose(rest, expected)
    np.testing.assert_allclose(rest + value.sum(), value_of(model.logp(), point))
    return reading, eta
