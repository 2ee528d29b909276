"""Firefly Monte Carlo with gradients: Hamiltonian and Langevin updates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pymc.blocking import PointType
from pymc.model import Model
from pymc.util import RandomGenerator

from pymc_flymc.errors import check, check_choice, is_number
from pymc_flymc.steps.step import FireflyStep

if TYPE_CHECKING:
    from pymc_flymc.sampling.bound_choice import BoundSetting
    from pymc_flymc.sampling.sampler import Sampler, SamplingTask
    from pymc_flymc.target.resampling import Resampling

METRICS = ("auto", "dense", "diagonal", "isotropic")


class FireflyHMC(FireflyStep):
    r"""Firefly Monte Carlo with Hamiltonian updates of the parameters.

    The gradient of :math:`\log p(\theta, z)` comes from the graphs of the prior and the collapsed
    bound, and from the bright rows alone. For posteriors with many parameters, or of a shape that
    random walks explore slowly.

    Parameters
    ----------
    vars
        As in `FireflyMH`.
    bound : Bound, "auto", None, or dict of these by names of observed variables
        Lower bound on each row's likelihood; "auto" takes one that fits the likelihood. None is
        regular MCMC: every transition reads all rows.
    brightness : ImplicitResampling or ExplicitResampling, optional
        How the brightness of the rows is resampled; by default
        ``ImplicitResampling(ratio=1.0, sweeps=2)``, or ``ratio=4.0`` with many effects of groups.
    path_length : float, default 2.5
        Largest length of a trajectory, in posterior standard deviations. Lengths are drawn
        uniformly between half of it and all of it. With a length of pi/2, successive draws from a
        normal distribution would be independent.
    target_accept : float, default 0.75
        Mean acceptance probability to which the step size is tuned, by dual averaging.
    metric : {"auto", "dense", "diagonal", "isotropic"}
        Mass matrix. It starts from the Laplace approximation and is estimated again from each
        tuning window's draws. "auto" is dense up to a few hundred parameters; beyond, elements
        of large variables have a variance each, and covariances with the others. "isotropic" has
        one variance for all parameters, as in the paper.
    transitions, anchor, model, rng, initial_point, checkpoint
        As in `FireflyMH`.

    Raises
    ------
    UnsupportedModelError, ValueError
        As in `FireflyMH`.

    See Also
    --------
    FireflyMH : tries which moves are cheapest, these among them.
    FireflyMALA : single gradient steps.

    Notes
    -----
    Each draw has the statistics of `FireflyMH`, without scales of random walks.
    ``leapfrog_step_size`` is in posterior standard deviations; ``n_leapfrog_steps`` counts steps,
    each with a gradient.

    References
    ----------
    Neal, R. M. (2011). MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo.
    Hoffman, M. D. and Gelman, A. (2014). The No-U-Turn sampler. JMLR 15, 1593-1623.
    Shahbaba, B., Lan, S., Johnson, W. O. and Neal, R. M. (2014). Split Hamiltonian Monte Carlo.
    Statistics and Computing 24, 339-349.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflyHMC())
    """

    name = "firefly_hmc"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **FireflyStep.common_stats,
        "leapfrog_step_size": (np.float64, []),
        "n_leapfrog_steps": (np.int64, []),
    }

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        bound: BoundSetting = "auto",
        brightness: Resampling | None = None,
        path_length: float = 2.5,
        target_accept: float = 0.75,
        metric: Literal["auto", "dense", "diagonal", "isotropic"] = "auto",
        transitions: int | None = None,
        anchor: dict[str, Any] | None = None,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        good = is_number(path_length) and 0 < path_length < np.inf
        check(good, "path_length", "a positive number", path_length)
        self._prepare(float(path_length), target_accept, metric)
        common = vars, bound, brightness, transitions, anchor, model, rng, initial_point, checkpoint
        self._build(*common)

    def _prepare(self, length: float, target_accept: float, metric: str) -> None:
        """Check and keep settings."""
        good = is_number(target_accept) and 0 < target_accept < 1
        check(good, "target_accept", "a number between 0 and 1", target_accept)
        check_choice("metric", metric, METRICS)
        self._length, self._target_accept, self._metric = length, float(target_accept), metric

    def _choose(self, task: SamplingTask) -> Sampler:
        from pymc_flymc.sampling.adaptation import HamiltonianAdaptation
        from pymc_flymc.sampling.choice import conditional_sampler

        if self._metric == "dense" and len(task.problems[0].anchor.geometry.diagonal):
            raise ValueError(
                f"metric='dense' is not for {len(self._default_theta):,} parameters; 'auto' is "
                "dense for all but large variables"
            )
        adaptation = HamiltonianAdaptation(self._length, self._target_accept, self._metric)
        return conditional_sampler(task, self._brightness, adaptation, self._transitions)


class FireflyMALA(FireflyHMC):
    r"""Firefly Monte Carlo with Metropolis-adjusted Langevin updates of the parameters.

    A trajectory of `FireflyHMC` of a single step: one gradient for each proposal. As in the
    experiments of Maclaurin & Adams (2014).

    Parameters
    ----------
    vars, bound
        As in `FireflyHMC`.
    brightness : ImplicitResampling or ExplicitResampling, optional
        How the brightness of the rows is resampled; ``ImplicitResampling()`` by default.
    target_accept : float, default 0.574
        Mean acceptance probability that the step size is tuned to; optimal for many
        parameters (Roberts & Rosenthal 1998).
    metric, transitions, anchor, model, rng, initial_point, checkpoint
        As in `FireflyHMC`.

    Raises
    ------
    UnsupportedModelError, ValueError
        As in `FireflyMH`.

    See Also
    --------
    FireflyHMC : longer trajectories, which read fewer rows per effective draw.

    Notes
    -----
    Each draw has the statistics of `FireflyHMC`.

    References
    ----------
    Roberts, G. O. and Rosenthal, J. S. (1998). Optimal scaling of discrete approximations to
    Langevin diffusions. JRSS B 60, 255-268.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflyMALA(), draws=5000)
    """

    name = "firefly_mala"

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        bound: BoundSetting = "auto",
        brightness: Resampling | None = None,
        target_accept: float = 0.574,
        metric: Literal["auto", "dense", "diagonal", "isotropic"] = "auto",
        transitions: int | None = None,
        anchor: dict[str, Any] | None = None,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self._prepare(0.0, target_accept, metric)
        common = vars, bound, brightness, transitions, anchor, model, rng, initial_point, checkpoint
        self._build(*common)
