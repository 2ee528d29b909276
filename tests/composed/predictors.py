"""Ways to write a term of a linear predictor: data, priors and the expression that joins them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytensor.tensor as pt
import scipy.sparse as sp

__all__ = ["RARE", "TERMS", "Writer"]


@dataclass
class Writer:
    """What a term is written with.

    Attributes
    ----------
    rng : numpy.random.Generator
        Of the data and of all choices.
    n : int
        Rows.
    prefix : str
        Before the names of the term's variables.
    """

    rng: np.random.Generator
    n: int
    prefix: str = ""

    def name(self, name: str) -> str:
        return self.prefix + name

    def column(self) -> np.ndarray:
        """Data of one column: of some distribution and type."""
        kind = self.rng.choice(["normal", "skewed", "indicator", "count", "single", "constant"])
        if kind == "skewed":
            return self.rng.exponential(size=self.n)
        if kind == "indicator":
            return self.rng.random(self.n) < 0.3
        if kind == "count":
            return self.rng.poisson(1.5, self.n)
        if kind == "constant":
            return np.full(self.n, 0.7)
        values = self.rng.normal(size=self.n)
        return values.astype(np.float32) if kind == "single" else values

    def matrix(self, k: int) -> np.ndarray:
        """Data of columns that may be nearly the same."""
        X = np.column_stack([self.column().astype(float) for _ in range(k)])
        if k > 1 and self.rng.random() < 0.2:
            X[:, -1] = X[:, 0] + 0.1 * self.rng.normal(size=self.n)
        return np.asfortranarray(X) if self.rng.random() < 0.3 else X

    def codes(self, levels: int) -> np.ndarray:
        """Levels of rows, some of them rare."""
        p = self.rng.dirichlet(np.full(levels, 0.8))
        return self.rng.choice(levels, self.n, p=p)

    def coefficients(self, name: str, shape: Any = ()) -> Any:
        """Variables with a prior of some kind."""
        name, kind = self.name(name), self.rng.integers(7)
        if kind == 0:
            return pm.StudentT(name, nu=4.0, mu=0.0, sigma=0.5, shape=shape)
        if kind == 1:
            return pm.Laplace(name, 0.0, 0.5, shape=shape)
        if kind == 2:
            return pm.Uniform(name, -1.5, 1.5, shape=shape)
        if kind == 3:
            return 0.2 * pm.Normal(name, 1.0, 3.0, shape=shape)
        if kind == 4:
            return pm.TruncatedNormal(name, 0.2, 0.7, lower=-1.0, shape=shape)
        return pm.Normal(name, 0.1, 0.8, shape=shape)

    def effects(self, name: str, shape: Any) -> Any:
        """Effects of a scale of their own, written in one of two ways."""
        scale = pm.LogNormal(self.name(f"{name}_scale"), -0.7, 0.3)
        if self.rng.random() < 0.5:
            return pm.Normal(self.name(name), 0.0, scale, shape=shape)
        return scale * pm.Normal(self.name(name), 0.0, 1.0, shape=shape)


def _dense(w: Writer) -> Any:
    k = int(w.rng.integers(1, 4))
    X, b = w.matrix(k), w.coefficients("b", k)
    ways = [
        lambda: X @ b,
        lambda: pm.math.dot(X, b),
        lambda: pt.dot(b, X.T),
        lambda: (X * b).sum(axis=1),
        lambda: pt.tensordot(X, b, axes=1),
        lambda: pt.sum(b[:, None] * X.T, axis=0),
        lambda: pm.Data(w.name("X"), X) @ b,
        lambda: (X @ b[:, None])[:, 0],
        lambda: (X @ b[:, None]).flatten(),
        lambda: X[:, ::-1] @ b[::-1],
        lambda: X @ pt.cumsum(b),
        lambda: X @ (b - b.mean() / 3.0),
        lambda: (2.0 * X) @ b / 2.0,
        lambda: -(X @ -b),
        lambda: pt.stack([pt.as_tensor(X[:, j]) * b[j] for j in range(k)]).sum(axis=0),
    ]
    return ways[w.rng.integers(len(ways))]()


def _scalars(w: Writer) -> Any:
    x, b = w.column(), [w.coefficients(f"b{i}") for i in range(3)]
    ways = [
        lambda: b[0] + b[1] * x,
        lambda: b[0] + (b[1] + b[2] * x) * x,
        lambda: b[0] * (x - np.mean(x)) / 2.0 + b[1] - b[2] * x**2 / 4.0,
        lambda: pt.stack([b[0], b[1]]) @ np.stack([np.ones(w.n), x]),
        lambda: b[0] + pt.switch(x > 0.5, b[1], b[2]),
        lambda: b[0] + pt.where(w.column() > 0.3, b[1], 0.0) * x,
        lambda: b[0] + b[1] * b[2] * x,
        lambda: b[0] + pm.math.exp(b[1] / 2.0) * x / 3.0,
    ]
    return ways[w.rng.integers(len(ways))]()


def _levels(w: Writer) -> Any:
    levels = int(w.rng.integers(2, 9))
    g, x = w.codes(levels), w.column()
    ways = [
        lambda: w.effects("a", levels)[g],
        lambda: w.effects("a", levels)[g] + w.effects("s", levels)[g] * x,
        lambda: w.effects("a", (levels, 2))[g, 0] + 0.5 * x,
        lambda: (w.effects("a", (levels, 2))[g] * np.column_stack([np.ones(w.n), x])).sum(axis=1),
        lambda: w.effects("a", (levels, 3))[g, w.codes(3)],
        lambda: w.effects("a", levels)[pm.Data(w.name("g"), g)],
        lambda: pm.ZeroSumNormal(w.name("a"), sigma=0.7, shape=levels)[g],
        lambda: pt.concatenate([[0.0], w.coefficients("a", levels - 1)])[g],
        lambda: pt.set_subtensor(pt.zeros(levels)[1:], w.coefficients("a", levels - 1))[g],
        lambda: w.effects("a", 3)[w.rng.integers(0, 3, levels)][g],
        lambda: w.effects("a", levels)[g] + w.effects("s", 3)[w.rng.integers(0, 3, levels)[g]],
        lambda: np.eye(levels)[g] @ w.effects("a", levels),
        lambda: pt.take(w.effects("a", levels), g),
        lambda: w.effects("a", levels)[g - levels],
        lambda: (w.coefficients("m") + w.effects("a", levels))[g],
        lambda: pm.Normal(w.name("a"), w.coefficients("m"), 0.5, shape=levels)[g],
    ]
    return ways[w.rng.integers(len(ways))]()


def _sparse(w: Writer) -> Any:
    X = sp.random(w.n, 4, density=0.4, format="csr", random_state=int(w.rng.integers(99)))
    b = w.coefficients("b", 4)
    return ps.structured_dot(ps.as_sparse(X), b[:, None])[:, 0]


def _series(w: Writer) -> Any:
    time = np.sort(w.rng.integers(0, 6, w.n)) if w.rng.random() < 0.5 else w.codes(6)
    scale = pm.LogNormal(w.name("walk_scale"), -1.0, 0.3)
    if w.rng.random() < 0.5:
        start = pm.Normal.dist(0.0, 0.5)
        return pm.GaussianRandomWalk(w.name("walk"), sigma=scale, init_dist=start, steps=5)[time]
    return pt.cumsum(scale * pm.Normal(w.name("jumps"), shape=6))[time]


def _several_columns(w: Writer) -> Any:
    """Two columns of a product, one of them or both."""
    X, b = w.matrix(2), w.coefficients("b", (2, 2))
    product = X @ b
    ways = [
        lambda: product[:, 1],
        lambda: product[:, 0] - 0.5 * product[:, 1],
        lambda: product.sum(axis=1),
        lambda: (product * np.array([1.0, -2.0])).sum(axis=1),
        lambda: product[np.arange(w.n), w.codes(2)],
        lambda: (X * b.T[w.codes(2)]).sum(axis=1),
        lambda: pt.set_subtensor(product[:, 0], X[:, 0] * b[0, 1]).sum(axis=1),
        lambda: pt.inc_subtensor(product[:, 1:], (X @ b[:, 1])[:, None]) @ [0.5, 0.5],
    ]
    return ways[w.rng.integers(len(ways))]()


def _correlated(w: Writer) -> Any:
    g, x = w.codes(5), w.column()
    chol, *_ = pm.LKJCholeskyCov(w.name("c"), n=2, eta=2.0, sd_dist=pm.LogNormal.dist(-0.7, 0.3))
    if w.rng.random() < 0.5:
        effects = pm.MvNormal(w.name("a"), np.zeros(2), chol=chol, shape=(5, 2))
    else:
        effects = pt.dot(chol, pm.Normal(w.name("z"), shape=(2, 5))).T
    return effects[:, 0][g] + effects[:, 1][g] * x


def _blocks_of_rows(w: Writer) -> Any:
    """Rows in two blocks, with predictors of their own that share a coefficient."""
    k, b = w.n // 3, w.coefficients("b", 2)
    X = w.matrix(2)
    return pt.concatenate([X[:k] @ b, b[0] - X[k:] @ (0.5 * b)])


def _shrunken(w: Writer) -> Any:
    X = w.matrix(3)
    scales = pm.LogNormal(w.name("local"), -0.5, 0.4, shape=3)
    return X @ (scales * pm.Normal(w.name("z"), 0.0, 1.0, shape=3))


TERMS: dict[str, Callable[[Writer], Any]] = {
    "dense": _dense,
    "scalars": _scalars,
    "levels": _levels,
    "sparse": _sparse,
    "series": _series,
    "columns": _several_columns,
    "correlated": _correlated,
    "blocks": _blocks_of_rows,
    "shrunken": _shrunken,
}


def _monotonic(w: Writer) -> Any:
    """Levels in an order, each at least as high as the last (Bürkner and Charpentier 2020)."""
    steps = pm.Dirichlet(w.name("steps"), np.ones(4))
    total = w.coefficients("total")
    ways = [
        lambda: total * pt.concatenate([[0.0], pt.cumsum(steps)])[w.codes(5)],
        lambda: total * (np.tri(5, 4, -1) @ steps)[w.codes(5)],
    ]
    return ways[w.rng.integers(len(ways))]()


def _mixed_columns(w: Writer) -> Any:
    """Shares of columns that add up to one."""
    return w.matrix(3) @ pm.Dirichlet(w.name("shares"), [1.0, 2.0, 1.5])


def _untransformed(w: Writer) -> Any:
    """Variables with ends, sampled as they are."""
    options: Any = {"default_transform": None}
    b = pm.Uniform(w.name("b"), -0.4, 0.9, shape=2, **options)
    c = pm.Exponential(w.name("c"), 2.0, **options)
    ways = [
        lambda: w.matrix(2) @ b + c * w.column(),
        lambda: w.matrix(2) @ b - pt.sqrt(c + 0.1),
        lambda: w.matrix(2) @ b + c * pm.Normal(w.name("a"), shape=4)[w.codes(4)],
        lambda: b[0] + pm.Normal(w.name("a"), b[1], c, shape=4)[w.codes(4)],
    ]
    return ways[w.rng.integers(len(ways))]()


def _autoregression(w: Writer) -> Any:
    time, scale = w.codes(6), pm.LogNormal(w.name("ar_scale"), -1.0, 0.3)
    rho = pm.Uniform(w.name("rho"), -0.9, 0.9)
    start = pm.Normal.dist(0.0, 0.5)
    return pm.AR(w.name("ar"), rho=[rho], sigma=scale, init_dist=start, steps=5)[time]


def _ordered(w: Writer) -> Any:
    ordered = pm.distributions.transforms.ordered
    return pm.Normal(w.name("o"), [-0.5, 0.0, 0.5], 1.0, transform=ordered)[w.codes(3)]


#: Terms that a model has only if they are asked for.
RARE: dict[str, Callable[[Writer], Any]] = {
    "monotonic": _monotonic,
    "mixed columns": _mixed_columns,
    "untransformed": _untransformed,
    "autoregression": _autoregression,
    "ordered": _ordered,
}
