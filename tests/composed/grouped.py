"""One grouping factor, as local sweeps take it: its effects, their mean and their scale."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from tests.composed.predictors import Writer

__all__ = ["BESIDE", "TANGENT", "one_factor"]

#: Families, as the sweep writes them, on which a tangent is a bound.
TANGENT = (
    "bernoulli-logit",
    "binomial-logit",
    "geometric",
    "negative-binomial",
    "negative-binomial-free",
    "student-t",
    "cauchy",
    "logistic",
    "laplace",
    "asymmetric-laplace",
)
#: Terms that have no factor of their own, most of the time.
BESIDE = ("dense", "scalars", "columns", "blocks", "shrunken")


def one_factor(w: Writer, *, plain: bool) -> Any:
    """Effects of groups, normal given all other parameters.

    Parameters
    ----------
    w : Writer
    plain : bool
        Whether effects with a free mean and scale are written as a mean and standardised effects,
        whatever was drawn: the same distribution, of which NUTS finds the ends.
    """
    levels = int(np.exp(w.rng.uniform(np.log(1.5), np.log(40.0))))
    upper = w.rng.integers(0, 3, levels)
    mean, scale = _mean(w, levels, upper), _scale(w, levels, upper)
    way, name = w.rng.integers(6), w.name("a")
    if way == 0:
        effects = mean + scale * pm.Normal(name, shape=levels)
    elif way == 1:
        effects = mean + pm.Normal(name, 0.3, 1.5, shape=levels) * scale
    elif plain:
        effects = pm.Deterministic(name, mean + scale * pm.Normal(name + "_z", shape=levels))
    elif way == 2:
        effects = pm.Normal(name, mean, tau=scale**-2.0, shape=levels)
    else:
        effects = pm.Normal(name, mean, scale, shape=levels)
    return _rows(w, levels, effects)


def _rows(w: Writer, levels: int, effects: Any) -> Any:
    """What rows have of effects."""
    p = w.rng.dirichlet(np.full(levels, np.exp(w.rng.uniform(-1.5, 2.0))))
    codes = w.rng.choice(levels, w.n, p=p)
    codes = np.sort(codes) if w.rng.random() < 0.3 else codes
    table = w.rng.permutation(levels)
    ways: list[Callable[[], Any]] = [
        lambda: effects[codes],
        lambda: pt.take(effects, codes),
        lambda: effects[pm.Data(w.name("g"), codes)],
        lambda: effects[codes - levels],
        lambda: effects[table][codes],
        lambda: effects[codes][np.argsort(table[codes], kind="stable")],
        lambda: (1.4 * effects)[codes],
        lambda: (effects / -0.6)[codes],
        lambda: (0.4 + effects)[codes],
    ]
    return ways[w.rng.integers(len(ways))]()


def _mean(w: Writer, levels: int, upper: np.ndarray) -> Any:
    """Of effects: a number, a parameter, or a regression on what groups have."""
    x = w.rng.normal(size=levels)
    ways: list[Callable[[], Any]] = [
        lambda: 0.0,
        lambda: pm.Normal(w.name("m"), 0.0, 1.0),
        lambda: w.coefficients("m"),
        lambda: pm.Normal(w.name("m"), 0.2, 1.0) + w.coefficients("m_slope") * x,
        lambda: pm.Normal(w.name("m"), 0.0, 0.8, shape=3)[upper],
        lambda: np.column_stack([x, x**2 - 1.0]) @ pm.Normal(w.name("m"), 0.0, 0.5, shape=2),
        lambda: pm.math.exp(pm.Normal(w.name("m"), -0.5, 0.4)),
    ]
    return ways[w.rng.integers(len(ways))]()


def _scale(w: Writer, levels: int, upper: np.ndarray) -> Any:
    """Of effects: with a prior of one kind or another, some of which reach zero."""
    name = w.name("scale")
    ways: list[Callable[[], Any]] = [
        lambda: pm.HalfNormal(name, 1.0),
        lambda: pm.HalfCauchy(name, 0.7),
        lambda: pm.HalfStudentT(name, 3.0, 1.0),
        lambda: pm.Exponential(name, 1.5),
        lambda: pm.InverseGamma(name, 3.0, 1.0),
        lambda: pm.Uniform(name, 0.0, 5.0),
        lambda: pm.LogNormal(name, -0.7, 0.8),
        lambda: pm.Gamma(name, 2.0, 2.0),
        lambda: pm.math.exp(pm.Normal(name, -0.7, 0.6)),
        lambda: pm.Gamma(name, 2.0, 1.0) ** -0.5,
        lambda: pm.HalfNormal(name, 1.0) * np.exp(w.rng.normal(0.0, 0.4, levels)),
        lambda: pm.Exponential(name, 1.5, shape=3)[upper],
        lambda: pt.sqrt(pm.Exponential(name, 2.0) ** 2 + 0.04),
    ]
    return ways[w.rng.integers(len(ways))]()
