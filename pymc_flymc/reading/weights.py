"""Rows with weights, likelihoods to a power: writing them in a model, and reading them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.basic import Apply, Constant, equal_computations
from pytensor.graph.replace import graph_replace
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import CustomSymbolicDistRV
from pymc_flymc.compat.pytensor import inline_ofg_node
from pymc_flymc.errors import check
from pymc_flymc.graphs.tools import check_integers, copy_graphs, evaluate, free_inputs
from pymc_flymc.likelihoods.checks import check_values
from pymc_flymc.likelihoods.weighted import weighted_family
from pymc_flymc.regression.regression import Regression


def weighted(name: str, dist: TensorVariable, weights: Any, **kwargs: Any) -> TensorVariable:
    """Observe a variable whose rows have weights: each likelihood to the power of its weight.

    The log density of the variable is ``weights * pm.logp(dist, observed)``, in all samplers. Draws
    of it, as in ``pm.sample_posterior_predictive``, are draws of `dist`.

    Parameters
    ----------
    name : str
    dist : TensorVariable
        An unnamed distribution, such as ``pm.Bernoulli.dist(logit_p=eta)``.
    weights : array_like or pm.Data
        A number for each row, zero or more. A row of weight zero is ignored; a row of weight two
        counts as two equal rows.
    **kwargs
        Arguments that any variable of PyMC takes: `observed`, `dims`.

    Returns
    -------
    TensorVariable
        The variable, in the model of the context.

    Raises
    ------
    ValueError
        If `dist` is not what ``.dist`` of a distribution returns.

    See Also
    --------
    FireflyMH : samples all models with such variables.

    Examples
    --------
    >>> weighted("y", pm.Bernoulli.dist(logit_p=X @ beta), weights=w, observed=y)
    """
    good = isinstance(dist, TensorVariable) and dist.owner is not None and _is_random(dist)
    check(good and dist.name is None, "weighted: dist", "an unnamed distribution", dist)
    parameters = _parameters(dist)

    def rebuilt(own: Sequence[TensorVariable]) -> Any:
        replacements: dict[Any, Any] = dict(zip(parameters, own, strict=True))
        return graph_replace([dist], replacements, strict=False)[0]

    def draw(*inputs: Any) -> TensorVariable:
        *own, size = inputs
        new = rebuilt(own)
        return new if isinstance(size.type, NoneTypeT) else change_dist_size(new, size)

    def logp(value: TensorVariable, *own: TensorVariable) -> Any:
        factors = pt.as_tensor_variable(weights)
        n_axes = value.ndim - dist.owner.op.ndim_supp
        if factors.ndim > n_axes:  # else each weight would be paired with each value
            raise ValueError(
                f"the weights of {name!r} have {factors.ndim} axes, and its observed values "
                f"{n_axes}: give a number for each value, as np.ravel(weights)"
            )
        return factors * pm.logp(rebuilt(own), value, warn_rvs=False)

    kind = type(dist.owner.op).__name__.removesuffix("RV").lstrip("_")
    return pm.CustomDist(
        name,
        *parameters,
        dist=draw,
        logp=logp,
        class_name=f"Weighted{kind}",
        ndims_params=[v.ndim for v in parameters],
        ndim_supp=dist.owner.op.ndim_supp,
        **kwargs,
    )


def _parameters(dist: TensorVariable) -> list[TensorVariable]:
    """Return the parameters of a distribution and of its components, without constants."""
    found: list[TensorVariable] = []
    todo = [dist]
    while todo:
        for v in _inputs(todo.pop().owner):
            if v.owner is not None and v.name is None and _is_random(v):
                todo.append(v)
            elif not isinstance(v, Constant) and v not in found:
                found.append(v)
    return found


def _inputs(node: Any) -> Sequence[TensorVariable]:
    """Return the inputs of a distribution, without random generators and its size."""
    op = node.op
    if isinstance(op, pm.SymbolicRandomVariable) and op.extended_signature is None:  # mixtures
        return [v for v in node.inputs if not isinstance(v.type, RandomType)]
    return list(node.op.dist_params(node))


def _is_random(v: TensorVariable) -> bool:
    return isinstance(v.owner.op, RandomVariable | pm.SymbolicRandomVariable)


def without_weights(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable | None]:
    """Return the variable inside a weighted one, and the graph of its weights.

    Any other variable is returned as it is, without weights. `weighted` and Bambi's ``weighted(y,
    w)`` make a variable from another one: it has the draws of the other one, and its log density
    times the weights.
    """
    if rv.owner is None or not isinstance(rv.owner.op, CustomSymbolicDistRV):
        return rv, None
    inner = inline_ofg_node(rv.owner)[rv.owner.outputs.index(rv)]
    if inner.owner is None or not _is_random(inner):
        return rv, None
    value = rv.type()
    try:
        whole, one = (pm.logp(v, value, warn_rvs=False) for v in (rv, _of_no_size(inner)))
    except NotImplementedError:  # a distribution that can be drawn, but has no density
        return rv, None
    if whole.owner is None or not isinstance(whole.owner.op, Elemwise):
        return rv, None
    if not isinstance(whole.owner.op.scalar_op, ps.Mul) or len(whole.owner.inputs) != 2:
        return rv, None
    weights, density = whole.owner.inputs
    if free_inputs([weights]) or not equal_computations([_core(density)], [_core(one)]):
        return rv, None
    inner.name = rv.name
    return inner, weights


def _of_no_size(rv: TensorVariable) -> TensorVariable:
    """Return a copy of a random variable whose size follows from its parameters alone."""
    node = rv.owner
    if not isinstance(node.op, RandomVariable):
        return rv
    return node.op.make_node(node.inputs[0], None, *node.op.dist_params(node)).outputs[1]


def _core(density: TensorVariable) -> TensorVariable:
    """Return a density and its parts without their broadcasts to the size of the variable."""

    def narrow(node: Apply, inputs: Sequence[Any]) -> Sequence[Any] | None:
        whole: Any = node.outputs[0]
        if isinstance(node.op, Alloc) and (whole is density or inputs[0].ndim == whole.ndim):
            return [inputs[0]]
        # Operations above are copied: their inputs may be narrower now.
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        return None if same else node.op.make_node(*inputs).outputs

    return copy_graphs([density], narrow)[0]


def read_weights(graph: TensorVariable, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return the weights of observed values, from `freeze`, as numbers >= 0, (N,)."""
    check_integers(graph, f"a weight of {name!r}")
    weights = evaluate(graph).astype(np.float64)
    try:
        weights = np.broadcast_to(weights, shape).reshape(-1)
    except ValueError:
        raise ValueError(
            f"{name!r} has weights of shape {weights.shape} for observed values of shape {shape}"
        ) from None
    expected = "finite and zero or more"
    check_values(
        np.isfinite(weights) & (weights >= 0), weights, f"the weights of {name!r}", expected
    )
    return weights


def with_weights(regression: Regression, weights: np.ndarray | None) -> Regression:
    """Return a regression whose rows have weights, without those of weight zero."""
    if weights is None:
        return regression
    design, y = regression.design, regression.y
    kept = np.flatnonzero(weights)
    if len(kept) < len(weights):
        design, y, weights = design.rows(kept), y[kept], weights[kept]
    likelihood, y = weighted_family(regression.likelihood, y, weights)
    return Regression(regression.name, design, y, likelihood)
