"""Refuse to sample if the compiled density differs from the one that was read."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from pymc_flymc.agreement.compared import Coefficients, function_of, of_reading, of_regression
from pymc_flymc.agreement.rounding import (
    ALLOWED,
    Values,
    confirmed_disagreement,
    largest_change,
    rounded,
)
from pymc_flymc.anchor.newton import EPSILON, LARGEST_ERROR
from pymc_flymc.bounds import Problem
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.posterior import row_terms
from pymc_flymc.kernels.rows import Rows, SeveralRows, parts_of
from pymc_flymc.regression.matrices import BLOCK
from pymc_flymc.regression.passes import blocks_of
from pymc_flymc.regression.regression import names_of
from pymc_flymc.reporting import doing
from pymc_flymc.target.collapsed_density import describe
from pymc_flymc.target.data import combine_rows, some_rows
from pymc_flymc.target.target import Target

#: Points at which the sums are evaluated, drawn from the Laplace approximation, and how often with
#: rounding errors.
POINTS = DRAWS = 8
#: No chain comes to draws whose log density is lower than that of the approximation by more than
#: this, each relative to the mode.
UNREACHED = 10.0
#: Of the points and of the rounding errors: the same model is always refused, or never.
SEED = 20261127
#: Floats beyond are whole whatever they stand for.
LARGEST_WHOLE = 2.0 / EPSILON


def check_rounded_sums(
    target: Target,
    problems: Sequence[Problem],
    others: np.ndarray,
    log_density: Callable[[np.ndarray], float],
) -> None:
    """Refuse a target whose log density changes too much with rounding errors of its statistics.

    It must not within a posterior standard deviation. `log_density` is that of the posterior in
    standardised coordinates: it reads all rows, and is seldom called.
    """
    points = np.random.default_rng(SEED).standard_normal((POINTS, len(target.geometry.centre)))
    if rounding_within_sd(target, others, points) <= LARGEST_ERROR:
        return
    # A funnel's approximation has draws far out of the posterior: no digits are needed there.
    reached = _log_weights(log_density, points) > -UNREACHED
    if rounding_within_sd(target, others, points[reached]) > LARGEST_ERROR:
        bounds = " and ".join(dict.fromkeys(part.bound.name for part in target.parts))
        raise ValueError(
            f"sums over the rows of {names_of(problems)} under the {bounds} bound are rounding "
            "errors along a line on which the posterior is wide, as where columns are far from "
            "zero beside their spread, such as dates, and events are rare. Centre such columns: "
            "subtract the mean and divide by the standard deviation. Or take bound=None, which "
            "reads all rows"
        )


def _log_weights(log_density: Callable[[np.ndarray], float], points: np.ndarray) -> np.ndarray:
    """Log densities relative to the approximation's, both relative to the mode, shape (n,)."""
    at_mode, found = log_density(np.zeros(points.shape[1])), np.full(len(points), -np.inf)
    for i, v in enumerate(points):
        with suppress(Exception):  # of a user's own type: no draw needs such a point
            found[i] = log_density(v) - at_mode + 0.5 * v @ v
    return found


def rounding_within_sd(target: Target, others: np.ndarray, points: np.ndarray) -> float:
    """Estimate the rounding error of the log density of collapsed sums one posterior sd away.

    `points` are draws of the approximation in standardised coordinates.
    """
    rng, w = np.random.default_rng(SEED), np.empty(target.n_slopes)
    thetas = [target.geometry.unstandardise(v) for v in (np.zeros(points.shape[1]), *points)]

    def changes(statistics: np.ndarray) -> np.ndarray:
        """Return how the log density differs from that at the centre."""
        both, values = np.concatenate([statistics, others]), np.full(len(thetas), np.nan)
        for i, theta in enumerate(thetas):
            with suppress(Exception):  # of a user's own type: no draw needs such a point
                values[i] = target.density(theta, both, w)
        values[np.isinf(values)] = np.nan  # beyond a limit of the prior
        return values[1:] - values[0]

    as_built = changes(target.statistics)
    errors = [
        changes(_with_rounded_statistics(target.statistics, rng)) - as_built for _ in range(DRAWS)
    ]
    found = np.ravel(errors)
    found = found[~np.isnan(found)]
    size = np.abs(found).max(initial=0.0)  # whose square may overflow
    # Along a line the error grows with the square of the distance, whose mean square is three.
    return float(size * np.sqrt(np.mean((found / size) ** 2) / 3.0)) if size else 0.0


def _with_rounded_statistics(statistics: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return statistics with random errors; sizes that are among them are whole, and exact."""
    exact = (np.trunc(statistics) == statistics) & (np.abs(statistics) < LARGEST_WHOLE)
    errors = rng.choice([-EPSILON, EPSILON], len(statistics))
    return np.where(exact, statistics, statistics * (1.0 + errors))


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
