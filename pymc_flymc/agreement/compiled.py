"""Refuse to sample if the compiled density differs from the one that was read.

Kernels run compiled code: the collapsed bounds with their statistics, and the factors of rows with
their constants. At a few points this density is summed over the brightness of all rows. That must
be the density of the model as it was read, with the likelihoods of all rows.
"""

from collections.abc import Sequence

import numpy as np

from pymc_flymc.agreement.disagreement import confirmed_disagreement
from pymc_flymc.agreement.reading import Coefficients, function_of, of_reading, of_regression
from pymc_flymc.agreement.rounding import ALLOWED, Values, largest_change, rounded
from pymc_flymc.bounds import Problem
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.records import read_only
from pymc_flymc.kernels.row_terms import row_terms
from pymc_flymc.kernels.rows import Rows, SeveralRows, parts_of
from pymc_flymc.regression.matrices import BLOCK
from pymc_flymc.regression.passes import blocks_of
from pymc_flymc.reporting import doing
from pymc_flymc.target.data import combine_rows, some_rows
from pymc_flymc.target.target import Target
from pymc_flymc.target.validation import describe

#: Distances from the anchor, in units of the Laplace approximation: within and beyond the limits
#: of bounds.
SCALES = (0.0, 1.0, 4.0)
#: The sum of all rates is compared with that of the rows if it is small enough to keep half of the
#: digits of the density.
LARGE = float(np.finfo(np.float64).eps ** -0.5)
#: Number of rows for which rounding errors are drawn.
SAMPLE = 512


@doing("comparing what was compiled with what was read")
def check_compiled(target: Target, problems: Sequence[Problem], others: np.ndarray) -> None:
    """Compare what kernels run with the regressions that were read, on all rows: refuse others."""
    rng = np.random.default_rng(20261124)
    geometry, n = target.geometry, len(target.geometry.centre)
    thetas = [geometry.unstandardise(scale * rng.standard_normal(n)) for scale in SCALES]
    found = confirmed_disagreement(
        _Comparison(target, problems, others, thetas),
        "the compiled density could not be compared with the model",
    )
    if found is None:
        return
    own, expected, (t, base, _) = found
    who = " and ".join(describe(part.bound, part.likelihood) for part in target.parts)
    raise UnsupportedModelError(
        f"what is compiled for sampling with {who} is not the model: summed over the brightness of "
        f"all rows its log density changes by {float((own.values[t] - own.values[base])[0]):.12g} "
        f"between two points, and the model's by "
        f"{float((expected.values[t] - expected.values[base])[0]):.12g}. If bound or family are "
        "your own, check_bound says where; if not, please report this model"
    )


class _Comparison:
    """The log density at some points, as compiled and as read."""

    def __init__(
        self,
        target: Target,
        problems: Sequence[Problem],
        others: np.ndarray,
        thetas: Sequence[np.ndarray],
    ) -> None:
        self.target, self.problems = target, problems
        self.points = [(theta, others) for theta in thetas]
        self.statistics = np.concatenate([target.statistics, others])
        self.posterior = target.posterior(self.statistics, target.geometry)
        self.scratch = scratch_for(target.data.rows)
        n_rows = sum(len(part.X) for part in target.data.parts)
        self.stride = max(1, n_rows // SAMPLE)
        #: Rounding errors of sums grow with the square root of their length (Higham & Mary 2019):
        #: sums over the rows of a block, and over blocks.
        self.growth = float(np.sqrt(BLOCK + n_rows / BLOCK))

    def __call__(self, draws: int) -> tuple[Values, Values]:
        """Return the compiled and the read density, with so many draws of rounding errors."""
        read = [of_reading(self.target.graph, self.points, seed) for seed in range(draws + 1)]
        rest = [each[0] for each in read]
        values, errors = rest[0].copy(), largest_change(rest[0], rest[1:])
        for i, problem in enumerate(self.problems):
            values += self._of_rows(problem, read[0][1][i])
            some = np.arange(0, len(problem.y), self.stride)
            of_some = problem.likelihood, problem.design.rows(some), problem.y[some]
            found = [of_regression(*of_some, each[1][i], seed) for seed, each in enumerate(read)]
            moved = largest_change(found[0], found[1:]).sum(axis=1, keepdims=True)
            errors += self.growth * self.stride * moved
        own = [
            self._compiled(t, draws) if np.isfinite(values[t, 0]) else (np.nan, np.inf)
            for t in range(len(self.points))
        ]
        return Values(*np.array(own).T[:, :, None]), Values(values, errors)

    def _of_rows(self, problem: Problem, coefficients: Coefficients) -> np.ndarray:
        """Add up the log-likelihoods of all rows at each point, shape (T, 1)."""
        function, out = function_of(problem.likelihood), np.full((len(coefficients), 1), np.nan)
        for t, w in enumerate(coefficients):
            if w is None:
                continue
            out[t] = 0.0
            for _, _, arguments, y in blocks_of(problem.design, problem.y, w):
                columns = np.atleast_2d(y.T).astype(np.float64)
                value = function(*arguments, *columns)
                out[t] += np.nan if value is None else value[0].sum()
        return out

    def _compiled(self, t: int, draws: int) -> tuple[float, float]:
        """Return the density at the t-th point, summed over the brightness of all rows."""
        target, data, rng = self.target, self.target.data, np.random.default_rng(t)
        theta, w, unused = self.points[t][0], np.empty(target.n_slopes), np.empty(target.n_slopes)
        density = target.density(theta, self.statistics, w)
        of_rows, rates = self._rows(data.rows, w, t)
        total, all_rates = density + of_rows.sum(), _all_rates(data.rows, w)
        of_rates = 0.0
        if all_rates < LARGE:
            total += rates - all_rates
            of_rates = all_rates * float(np.finfo(np.float64).eps)
        if data.exact is not None:
            total += self._terms(data.exact, w, np.arange(len(data.exact.X)), True)[0].sum()
        some = _some(data.rows, self.stride)
        (of_some, _), moved, moved_density = self._rows(some, w, t), np.zeros(1), 0.0
        for _ in range(draws):
            of_others, _ = self._rows(_rounded(some, rng), rounded(w, rng), t)
            moved = np.maximum(moved, np.abs(of_others - of_some))
            # Of what is computed from theta, such as a covariance that is nearly singular, compiled
            # code may lose other digits than the graph.
            near = rounded(theta, rng), rounded(self.statistics, rng)
            other = target.density(*near, unused)
            moved_density = max(moved_density, abs(other - density))
        error = ALLOWED * self.growth * (self.stride * moved.sum() + moved_density + of_rates)
        return float(total), float(error)

    def _rows(self, rows: Rows | SeveralRows, w: np.ndarray, t: int) -> tuple[np.ndarray, float]:
        """Return the factors of rows, summed over their brightness, and the sum of finite rates.

        Rows that a surrogate treats exactly are left out. A factor is log L less what is collapsed.
        """
        target = self.target
        surrogate = target.data.exact is not None
        index = np.arange(sum(len(part.X) for part in parts_of(rows)))
        if surrogate:
            (only,) = parts_of(rows)
            index = index[only.constants[:, [ROW.near, ROW.beyond]].any(axis=1)]
        # Kernels with gradients have two functions of a row, with and without a gradient: each is
        # compared at some points.
        with_gradient = bool(target.factor_gradients) and not surrogate and t % 2 == 1
        factors, rates = self._terms(rows, w, index, with_gradient)
        if target.subsamples:  # the sum of bright and dark; a rate is infinite if kept bright
            factors = np.logaddexp(factors, -rates)
        return factors, float(rates[rates < np.inf].sum())

    def _terms(
        self, rows: Rows | SeveralRows, w: np.ndarray, index: np.ndarray, with_gradient: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        gradient = np.zeros(len(w) if with_gradient else 0)
        return row_terms(self.posterior._replace(rows=rows), w, index, gradient, self.scratch)


def _all_rates(rows: Rows | SeveralRows, w: np.ndarray) -> float:
    """Return the sum of rates of all rows that can be dark, from the totals that kernels use."""
    if isinstance(rows, SeveralRows):
        parts = np.split(w, rows.place[1:-1])
        return sum(map(_all_rates, rows.parts, parts))
    powers = w[len(w) - len(rows.totals) :]
    return float(rows.totals.sum(axis=1)[powers > 0.0] @ powers[powers > 0.0])


def _some(rows: Rows | SeveralRows, stride: int) -> Rows | SeveralRows:
    """Return copies of every so-many-th row."""
    parts = [some_rows(part, np.arange(0, len(part.X), stride)) for part in parts_of(rows)]
    return combine_rows(parts, [*np.diff(rows.place)] if isinstance(rows, SeveralRows) else [])


def _rounded(rows: Rows | SeveralRows, rng: np.random.Generator) -> Rows | SeveralRows:
    """Return rows with errors of rounding in their constants."""
    parts = [
        part._replace(constants=read_only(rounded(part.constants, rng))) for part in parts_of(rows)
    ]
    return rows._replace(parts=tuple(parts)) if isinstance(rows, SeveralRows) else parts[0]
