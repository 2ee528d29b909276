"""What is measured of a method: errors of posterior means and standard deviations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.laplace import Laplace
from examples.comparison.problem import Problem

#: Points of a curve, from this many draws on.
POINTS, FIRST = 30, 20


class TooSlow(Exception):
    """A method has no twenty draws by far beyond its time."""


@dataclass(frozen=True)
class Moments:
    """Posterior means and standard deviations, shape (D,) each, and their Monte Carlo errors.

    The errors are root mean squares over parameters, of the means in standard deviations and of
    the logarithms of the standard deviations.
    """

    mean: np.ndarray
    sd: np.ndarray
    error_mean: float
    error_sd: float

    @classmethod
    def of(cls, draws: np.ndarray) -> Moments:
        """Estimate them from draws of shape (chains, draws, D)."""
        import arviz as az

        mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        errors = [
            [az.mcse(draws[:, :, j], method=method) for j in range(len(mean))]
            for method in ("mean", "sd")
        ]
        return cls(mean, sd, *(_rms(np.asarray(error, dtype=float) / sd) for error in errors))

    def errors(self, mean: np.ndarray, sd: np.ndarray) -> tuple[float, float]:
        """Root mean squares of the errors of other means, in sd, and of other log sd."""
        return _rms((mean - self.mean) / self.sd), _rms(np.log(sd / self.sd))


@dataclass(frozen=True)
class Task:
    """What a method is given.

    Attributes
    ----------
    problem, laplace : the posterior, and its Gaussian approximation.
    reference : the moments to be estimated.
    seconds : of processor time, after which a method stops, or after up to three times as many if
        it has few draws by then.
    draws : number of draws after which it stops, too.
    seed : of the method's random numbers.
    enough : draws that are not few.
    """

    problem: Problem
    laplace: Laplace
    reference: Moments
    seconds: float
    draws: int
    seed: int
    enough: float = 500

    def over(self, seconds: float, draws: int) -> bool:
        """Whether a method stops that has taken so many seconds for so many draws."""
        limit = self.seconds if draws >= self.enough else 3 * self.seconds
        return seconds >= limit or draws >= self.draws

    def scaled(self, factor: float) -> Task:
        """Return the same task with another limit."""
        return replace(
            self,
            seconds=factor * self.seconds,
            draws=int(factor * self.draws),
            enough=factor * self.enough,
        )


@dataclass(frozen=True)
class Curve:
    """Estimates of means and standard deviations as a method goes on.

    Attributes
    ----------
    rows : read so far, set-up and tuning included, shape (K,).
    seconds : of processor time so far, likewise; not a number where they say nothing.
    mean, sd : estimates, shape (K, D).
    draws : that the last estimate is made of; 0 if it is not made of draws.
    own_error : Monte Carlo errors of the last mean and log sd, estimated from the draws alone.
    ess : smallest bulk effective sample size over the parameters, and the rows for each of them.
    note : what was tuned.
    """

    rows: np.ndarray
    seconds: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    draws: int = 0
    own_error: tuple[float, float] = (np.nan, np.nan)
    ess: float = np.nan
    rows_per_ess: float = np.nan
    note: str = ""


def curve_of(
    draws: np.ndarray, rows: np.ndarray, seconds: np.ndarray, first_rows: float = np.nan
) -> Curve:
    """Make a curve of growing parts of a chain, shape (T, D), with cumulated rows and seconds.

    `first_rows` were read before the chain's first draw after tuning.
    """
    import arviz as az

    ends = np.unique(np.geomspace(min(FIRST, len(draws)), len(draws), POINTS).astype(int))
    own = Moments.of(draws[None])
    ess = min(float(az.ess(draws[None, :, j], method="bulk")) for j in range(draws.shape[1]))
    return Curve(
        rows[ends - 1].astype(float),
        seconds[ends - 1],
        np.array([draws[:end].mean(axis=0) for end in ends]),
        np.array([draws[:end].std(axis=0) for end in ends]),
        len(draws),
        (own.error_mean, own.error_sd),
        ess,
        float(rows[-1] - first_rows) / ess,
    )


def repeat[Result](
    task: Task, advance: Callable[[], Result], draws: int = 1, spent: float = 0.0
) -> tuple[list[Result], np.ndarray]:
    """Call a function until a task's seconds or draws are over.

    Parameters
    ----------
    draws : that it makes each time.
    spent : seconds that have gone before.

    Returns
    -------
    What it returned each time, and the seconds gone for each draw.
    """
    results: list[Result] = []
    seconds: list[float] = []
    began = clock() - spent
    while not results or not task.over(seconds[-1], len(results) * draws):
        results.append(advance())
        seconds.append(clock() - began)
    return results, np.repeat(seconds, draws)


def chosen[Setting: (int, float)](
    task: Task, settings: Sequence[Setting], run: Callable[[Task, Setting], Curve], name: str
) -> Curve:
    """Run with the setting whose pilot, a quarter as long, ends with the least error.

    The error is against the reference, which no user has, and the pilots are not counted.
    """

    def error(setting: Setting) -> float:
        try:
            curve = run(task.scaled(0.25), setting)
        except TooSlow:
            return np.inf
        total = float(np.sum(np.square(task.reference.errors(curve.mean[-1], curve.sd[-1]))))
        return total if np.isfinite(total) else np.inf

    errors = [error(setting) for setting in settings]
    if np.isinf(errors).all():
        raise TooSlow
    best = settings[int(np.argmin(errors))]
    return replace(run(task, best), note=f"{name} {best:g}")


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
