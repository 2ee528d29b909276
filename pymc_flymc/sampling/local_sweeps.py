"""Local sweeps: their bounds, and the settings and models that they refuse."""

from __future__ import annotations

import numpy as np

from pymc_flymc.bounds import Bound, FreeJaakkolaJordan, JaakkolaJordan, Tangent
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.sampling.adaptation.base import Adaptation
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.conditionals import WHO
from pymc_flymc.target.resampling import ImplicitResampling, Resampling
from pymc_flymc.target.target import Target

#: Bounds that are quadratic in an effect given all other parameters. With so little slack, an
#: effective draw of the slowest of 1,000 logistic effects, of 100 rows each, took a third of the
#: rows that it took with the bound's default slack, which slice updates do not need.
TANGENTS = JaakkolaJordan(slack=0.5), FreeJaakkolaJordan(slack=0.5), Tangent()
#: Points at which conditional distributions are compared with the density, and how far effects are
#: from their means there, in sds: an effect with a distribution that is not normal differs.
POINTS, EFFECT_SDS = 3, 5.0
#: Largest difference of standardised gradients that is attributed to rounding.
GRADIENT_ROUNDING = 1e-6
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
    gradient, moments = np.empty_like(geometry.centre), np.empty((len(MOMENTS), n_groups))
    rng = np.random.default_rng(20261124)

    def evaluate(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient in the effects, and their coefficients."""
        w = np.empty(target.n_slopes)
        target.density_gradient(theta, target.statistics, w, gradient)
        return gradient[effects], w[column : column + n_groups]

    for _ in range(POINTS):
        theta = geometry.unstandardise(rng.standard_normal(len(geometry.centre)))
        conditionals.moments(theta, target.statistics, moments.ravel())
        mean, sd = moments[MOMENTS.mean], moments[MOMENTS.sd]
        z = EFFECT_SDS * rng.standard_normal(n_groups)
        theta[effects] = mean
        before = evaluate(theta)[1]
        theta[effects] = mean + sd * z
        slope, after = evaluate(theta)
        expected = moments[MOMENTS.change] * sd * z
        wrong = ~(np.abs(sd * slope + z) < GRADIENT_ROUNDING * (1.0 + EFFECT_SDS))
        wrong |= ~(np.abs(after - before - expected) < GRADIENT_ROUNDING * (1.0 + np.abs(expected)))
        if wrong.any():
            raise UnsupportedModelError(
                f"{WHO}needs effects that are normal given all other parameters and independent of "
                f"each other, as of pm.Normal: that of group {int(np.argmax(wrong))} is not; take "
                "kernel='auto' or 'hamiltonian' here"
            )
