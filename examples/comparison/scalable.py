"""Metropolis-Hastings with scalable subsampling, by PyMHSS."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from examples.comparison.measurement import Curve, Task, curve_of

#: The second-order control variates keep a matrix of each row: no more than so many numbers.
MOST = 10**8
#: Iterations; it stops by their number, as its time is plain Python's.
ITERATIONS = 20_000


def run(task: Task) -> Curve:
    """In coordinates standardised at the mode, where its bounds are tighter; no seconds are told.

    Its prior is flat: the model's own comes as rows.
    """
    with contextlib.redirect_stderr(io.StringIO()):  # TensorFlow's greetings, a bar of progress
        from PyMHSS import MH_SS

        X, y = task.problem.with_prior_as_rows()
        d = X.shape[1]
        order = 2 if X.size * d <= MOST else 1
        np.random.seed(task.seed)
        found = MH_SS(
            y,
            X @ task.laplace.factor,
            np.eye(d),
            np.linalg.solve(task.laplace.factor, task.laplace.mode),
            nburn=0,
            npost=min(ITERATIONS, task.draws),
            model="logistic",
            implementation="vectorised",
            taylor_order=order,
        )
    draws = found["parameters"] @ task.laplace.factor.T
    first = task.laplace.rows + len(y)
    rows = first + np.cumsum(found["BoverN"][:, 0] * len(y))
    return curve_of(draws, rows, np.full(len(rows), np.nan), first)
