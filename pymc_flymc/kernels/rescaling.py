"""Moves of a scale and of all effects that share it: exact for whatever elements they are.

In a posterior of few rows for each of some groups, small scales tau leave their effects little
room: steps that suit all else are rejected there, so that chains hardly enter small scales. Here
log tau changes by delta, and the effects' distances from their location by the factor exp(delta),
as if they were written as location + tau * z: a chain mixes whichever way suits (Yu & Meng 2011).

Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. Journal of
Computational and Graphical Statistics 20, 531-570.
"""

from __future__ import annotations

import numpy as np

from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.geometry import whiten
from pymc_flymc.kernels.native import kernel_part
from pymc_flymc.kernels.posterior import accept_given_z, copy, log_density_at, log_ratio_at
from pymc_flymc.kernels.shared_scales import NO_CENTRE

__all__ = ["REPEATS", "propose_rescaling", "rescale"]

#: Smallest and largest standard deviation of a change of log tau. Each is drawn anew, uniformly in
#: its logarithm: with few rows the posterior is some units wide, with many a few hundredths.
SMALLEST, LARGEST = 0.02, 2.0
#: Moves of each scale in a draw. Of a funnel of five effects, 22 rows, log tau had two to three
#: times as many effective draws as with one, for at most a fifth more time.
REPEATS = 4


@kernel_part
def propose_rescaling(rng, posterior, k, chain):
    """Propose chain.v_new, with scale k and its effects changed; return the log Jacobian.

    The change of log tau is symmetric around zero, whatever the state, and the change back undoes
    it. Effects are stretched by exp(change) each, around locations that stay: theirs is the
    Jacobian.
    """
    scales, theta = posterior.scales, chain.theta_new
    copy(chain.theta, theta)
    change = SMALLEST * (LARGEST / SMALLEST) ** rng.random() * rng.standard_normal()
    theta[scales.scale[k]] += change
    first, last = scales.first[k], scales.first[k + 1]
    for i in range(first, last):
        j = scales.effects[i]
        centre = theta[scales.centre[i]] if scales.centre[i] != NO_CENTRE else 0.0
        theta[j] = centre + (theta[j] - centre) * np.exp(change)
    whiten(posterior.geometry, theta, chain.v_new)
    return (last - first) * change


@kernel_part(inline="always")
def rescale(rng, posterior, chain, bright, scratch):
    """Update each scale in turn, given z. Writes the mean acceptance probability."""
    n = posterior.scales.scale.shape[0]
    if n == 0:
        return
    take_dark(posterior.rows, bright, chain)
    total = 0.0
    for i in range(REPEATS * n):
        log_ratio = propose_rescaling(rng, posterior, i % n, chain)
        log_density = log_density_at(posterior, chain)
        log_ratio += log_ratio_at(posterior, log_density, chain, bright, scratch)
        total += np.exp(min(0.0, log_ratio))
        if -rng.standard_exponential() < log_ratio:
            accept_given_z(chain, log_density, bright)
    chain.rescaled[0] = total / (REPEATS * n)
