"""Random-walk Metropolis-Hastings whose test reads as many rows as it needs to be confident.

The tests are those of Korattikara, Chen & Welling (2014), Student's t, and of Bardenet, Doucet &
Holmes (2014), an empirical Bernstein bound; see sections 3.2.3 and 3.2.4 of Angelino, Johnson &
Adams (2016). No library keeps them. All rows are read where the tests do not stop before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import stdtr

from examples.comparison.laplace import log_priors, softplus
from examples.comparison.measurement import Curve, Task, chosen, curve_of, repeat

#: Whether to stop, given the mean and standard deviation of the rows read, the threshold, how many
#: have been read in how many batches, the number of all, and a bound of a row's absolute term.
Rule = Callable[[float, float, float, int, int, int, float], bool]


def t_test(
    mean: float, sd: float, threshold: float, m: int, k: int, n: int, bound: float, epsilon: float
) -> bool:
    """Stop if the mean differs from the threshold at the level epsilon."""
    error = sd / np.sqrt(m) * np.sqrt((n - m) / (n - 1))
    return stdtr(m - 1, -abs(mean - threshold) / error) < epsilon if error > 0 else True


def bernstein(
    mean: float, sd: float, threshold: float, m: int, k: int, n: int, bound: float, epsilon: float
) -> bool:
    """Stop if an empirical Bernstein bound of the mean's error excludes the threshold."""
    log = np.log(3 * 2 * k**2 / epsilon)  # of batch k's share of epsilon, with p = 2
    return abs(mean - threshold) > sd * np.sqrt(2 * log / m) + 6 * bound * log / m


class Sampler:
    """Random walk from the mode, in coordinates standardised there.

    The rows are shuffled once. A test reads on from a random one of them, a batch and another, each
    `growth` times as large as all before, or as large as the first if `growth` is zero.
    """

    def __init__(self, task: Task, rule: Rule, batch: int, growth: float) -> None:
        self.rule, self.batch, self.growth = rule, batch, growth
        self.rng = np.random.default_rng(task.seed)
        self.n = len(task.problem.y)
        self.mode, self.factor = task.laplace.mode, task.laplace.factor
        order = self.rng.permutation(self.n)
        order = np.concatenate([order, order])  # reading goes round
        self.Z = task.problem.X[order] @ self.factor
        sign = 2 * task.problem.y[order] - 1
        self.Z *= sign[:, None]
        self.offset = sign * (task.problem.X[order] @ self.mode)
        self.largest = np.sqrt((self.Z**2).sum(axis=1)).max()
        self.v = np.zeros(len(self.mode))
        self.scale = 2.38 / np.sqrt(len(self.mode))

    def draw(self) -> tuple[np.ndarray, int]:
        """One iteration: the parameters, and the number of rows read."""
        new = self.v + self.scale * self.rng.standard_normal(len(self.v))
        both = self.mode[:, None] + self.factor @ np.column_stack([self.v, new])
        before, after = log_priors(both)
        threshold = (np.log(self.rng.random()) + before - after) / self.n
        bound = self.largest * np.sqrt(((new - self.v) ** 2).sum())  # log sigma is 1-Lipschitz
        start, m, k, total, squares = int(self.rng.integers(self.n)), 0, 0, 0.0, 0.0
        while True:
            size = self.batch if m == 0 or not self.growth else int(self.growth * m)
            size = min(size, self.n - m)
            part = slice(start + m, start + m + size)
            eta = self.Z[part] @ np.column_stack([self.v, new]) + self.offset[part, None]
            losses = softplus(np.negative(eta, out=eta))
            terms = losses[:, 0] - losses[:, 1]
            m, k = m + size, k + 1
            total, squares = total + terms.sum(), squares + terms @ terms
            mean = total / m
            sd = np.sqrt(max(squares - m * mean**2, 0) / max(m - 1, 1))
            if m >= self.n or self.rule(mean, sd, threshold, m, k, self.n, bound):
                break
        if mean > threshold:
            self.v = new
        return self.v, m


def run(task: Task, rule: Rule, batch: int = 500, growth: float = 0.0) -> Curve:
    sampler = Sampler(task, rule, batch, growth)
    draws, seconds = repeat(task, sampler.draw, spent=task.laplace.seconds)
    theta = task.laplace.mode + np.array([v for v, _ in draws]) @ task.laplace.factor.T
    rows = task.laplace.rows + np.cumsum([m for _, m in draws])
    return curve_of(theta, rows, seconds, task.laplace.rows)


def run_exact(task: Task) -> Curve:
    """Read all rows in each iteration."""
    return run(task, lambda *_: False, batch=len(task.problem.y))


def run_t_test(task: Task) -> Curve:
    """Read batches of 500 rows."""
    return chosen(
        task,
        (0.01, 0.05, 0.1, 0.2),
        lambda task, epsilon: run(task, partial(t_test, epsilon=epsilon)),
        "epsilon",
    )


def run_bernstein(task: Task) -> Curve:
    """Double the batch, from 500 rows."""
    return chosen(
        task,
        (0.01, 0.1),
        lambda task, epsilon: run(task, partial(bernstein, epsilon=epsilon), growth=1.0),
        "epsilon",
    )
