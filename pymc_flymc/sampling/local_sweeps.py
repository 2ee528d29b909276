"""Local sweeps: their bounds, and the settings and models that they refuse."""

from __future__ import annotations

import numpy as np

from pymc_flymc.bounds import Bound, FreeJaakkolaJordan, JaakkolaJordan, Tangent
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.sampling.adaptation import Adaptation
from pymc_flymc.sampling.sampler import Sampler, SamplingTask
from pymc_flymc.target.conditionals import WHO
from pymc_flymc.target.resampling import ImplicitResampling, Resampling
from pymc_flymc.target.target import Target

#: Bounds that are quadratic in an effect given all other parameters. With so little slack, an
#: effective draw of the slowest of 1,000 logistic effects, of 100 rows each, took a third of the
#: rows that it took with the bound's default slack, which slice updates do not need.
TANGENTS = JaakkolaJordan(slack=0.5), FreeJaakkolaJordan(slack=0.5), Tangent()
#: Points at which conditional distributions are compared with the density, and distances of effects
#: from their means there, in sds. An effect with a distribution that is not normal differs, and so
#: does one whose distribution ends, or which enters predictors otherwise on one side of its mean.
POINTS, DISTANCES = 3, (-8.0, -4.0, -2.0, -1.0, 1.0, 2.0, 4.0, 8.0)
#: Largest difference of standardised gradients, of coefficients, or of a log density a group, that
#: is attributed to rounding.
ROUNDING = 1e-6
NORMAL = (
    "needs effects that are normal given all other parameters and independent of each other, as of "
    "pm.Normal"
)
ELSE = "take kernel='auto' or 'hamiltonian' here"
NAMES = " or ".join(type(bound).__name__ for bound in TANGENTS)


def check_local(bound: object, resampling: Resampling | None) -> None:
    """Refuse settings that local sweeps cannot use."""
    is_tangent = isinstance(bound, (str, *map(type, TANGENTS)))
    if not is_tangent:
        raise ValueError(f"kernel='local' needs bound='auto' or one bound: {NAMES}")
    if resampling is not None and not isinstance(resampling, ImplicitResampling):
        raise ValueError("kernel='local' needs brightness=ImplicitResampling(...), or none given")


def local_bound(task: SamplingTask) -> Bound:
    """Return the bound that was asked for, or the first that is one on the likelihood.

    Raises
    ------
    UnsupportedModelError
        If no tangent bound is one on the likelihood.
    """
    likelihood, asked = task.problems[0].likelihood, task.bounds[0]
    if not isinstance(asked, str):
        return asked
    valid = [each for each in TANGENTS if each.supports(likelihood)]
    if not valid:
        raise UnsupportedModelError(
            f"kernel='local' needs a tangent bound ({NAMES}), and none of them is one on "
            f"{likelihood.name} likelihoods; take kernel='auto' or 'hamiltonian' here"
        )
    return valid[0]


def local_sampler(
    task: SamplingTask,
    adaptation: Adaptation,
    resampling: Resampling | None = None,
    transitions: int | None = None,
) -> Sampler:
    """Return the sampler of local sweeps.

    Raises
    ------
    UnsupportedModelError
        If they cannot sample the model.
    """
    bounds = [local_bound(task)] * len(task.problems)
    sampler = task.sampler(bounds, adaptation, resampling, transitions)
    check_effects(sampler.target)
    return sampler


def check_effects(target: Target) -> None:
    """Compare the conditional distributions of effects with the density, at a few points.

    Raises
    ------
    UnsupportedModelError
        If they are not normal, or if effects of different groups depend on each other; or if other
        step methods have variables of the model.
    """
    effects, conditionals, geometry = target.effects, target.conditionals, target.geometry
    assert effects is not None and conditionals is not None
    if target.n_others:
        raise UnsupportedModelError(f"{WHO}samples all variables of the model: leave out vars=")
    rows, n_groups = target.data.parts[0], len(effects)
    column = rows.X.shape[1] + rows.intercept
    own = slice(column, column + rows.n_sparse)
    gradient, moments = np.empty_like(geometry.centre), np.empty((len(MOMENTS), n_groups))
    rng = np.random.default_rng(20261124)

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Log density, gradient in the effects, and coefficients."""
        w = np.empty(target.n_slopes)
        log_density = target.density_gradient(theta, target.statistics, w, gradient)
        return log_density, gradient[effects], w

    for _ in range(POINTS):
        theta = geometry.unstandardise(rng.standard_normal(len(geometry.centre)))
        conditionals.moments(theta, target.statistics, moments.ravel())
        mean, sd = moments[MOMENTS.mean], moments[MOMENTS.sd]
        signs = rng.choice([-1.0, 1.0], n_groups)
        theta[effects] = mean
        highest, _, before = evaluate(theta)
        for distance in DISTANCES:
            z = distance * signs * rng.uniform(0.5, 1.0, n_groups)
            theta[effects] = mean + sd * z
            log_density, slope, after = evaluate(theta)
            change = np.zeros_like(after)
            change[own] = (moments[MOMENTS.change] * sd * z)[: rows.n_sparse]
            moved = ~(np.abs(after - before - change) < ROUNDING * (1.0 + np.abs(change)))
            wrong = ~(np.abs(sd * slope + z) < ROUNDING * (1.0 + abs(distance)))
            wrong[: rows.n_sparse] |= moved[own]
            if np.delete(moved, own).any():
                raise UnsupportedModelError(
                    f"{WHO}needs effects that change nothing but their own groups' rows; {ELSE}"
                )
            if wrong.any():
                raise UnsupportedModelError(
                    f"{WHO}{NORMAL}: that of group {int(np.argmax(wrong))} is not; {ELSE}"
                )
            lower = 0.5 * float(np.sum(z**2))
            if not abs(highest - log_density - lower) < ROUNDING * (1.0 + abs(highest) + lower):
                raise UnsupportedModelError(f"{WHO}{NORMAL}; {ELSE}")
