"""Chains that begin with exact draws of (theta, z) end with exact draws of theta.

The joint test of Gandy & Scott (2020) given the data: of a posterior in two or three dimensions,
which is known by quadrature, independent draws are made by rejection, brightness is drawn from its
conditional distribution, and a chain of its own begins with each. Whatever number of transitions it
makes, where it ends is an exact draw again: p-values need no effective sample size.
"""

from typing import Any

import numpy as np
from scipy import stats
from scipy.ndimage import maximum_filter

from pymc_flymc import UnsupportedModelError
from tests.proof.sequential import Verdict, test_in_stages
from tests.sweep.combinations import Combination
from tests.sweep.reference import Posterior, density_of

__all__ = ["Exact", "test_combination"]

#: Draws of tuning before settings are frozen, and transitions of each chain.
TUNE, TRANSITIONS = 200, 10
#: A cell is proposed by this many times the largest density at the grid points around it.
CEILING = 1.5
#: Of chains so many at least must have moved: else exact draws that stay exact say nothing.
MOVED = 0.05


class Exact:
    """Exact draws of a posterior that is known on a grid.

    Parameters
    ----------
    model : pm.Model
    posterior : Posterior
    """

    def __init__(self, model: Any, posterior: Posterior) -> None:
        self.density, self.posterior = density_of(model), posterior
        self._step = np.array([axis[1] - axis[0] for axis in posterior.axes])
        at = [axis[len(axis) // 2 : len(axis) // 2 + 1] for axis in posterior.axes]
        middle = np.array([[x[0] for x in at]])
        place = tuple(len(axis) // 2 for axis in posterior.axes)
        self._shift = self.density(middle)[0] - posterior.log_p[place]
        self._ceiling = maximum_filter(posterior.log_p, 3) + np.log(CEILING)
        self._cumulative = np.cumsum(np.exp(self._ceiling).ravel())

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return independent draws, shape (n, D), by rejection from the cells of the grid."""
        found: list[np.ndarray] = []
        axes, total = self.posterior.axes, self._cumulative[-1]
        while sum(map(len, found)) < n:
            places = np.searchsorted(self._cumulative, rng.random(2 * n) * total)
            index = np.unravel_index(places, self._ceiling.shape)
            corner = np.stack([axis[i] for axis, i in zip(axes, index, strict=True)], axis=1)
            points = corner + (rng.random(corner.shape) - 0.5) * self._step
            ratio = self.density(points) - self._shift - self._ceiling[index]
            assert ratio.max() <= 0.0, "the grid is too coarse for exact draws"
            found.append(points[-rng.standard_exponential(len(points)) < ratio])
        return np.concatenate(found)[:n]


def test_combination(
    combination: Combination, posterior: Posterior, n: int, alarm: float, seed: int
) -> Verdict | str:
    """Test a combination of the sweep; return why not, if it is refused."""
    model = combination.model
    with model.patches():
        try:
            step = combination.step()
        except (UnsupportedModelError, ValueError) as error:
            return str(error).splitlines()[0]
        exact = Exact(model.whole, posterior)
        rng = np.random.default_rng([seed, combination.seed])
        step.setup_chain(rng, TUNE, 1)
        step.tune, point = True, model.sampled.initial_point()
        for _ in range(TUNE):
            point, _ = step.step(point)
        step.stop_tuning()
        step.step(point)
        chain = step.chain

        def p_values(n: int) -> np.ndarray:
            begun, ended = exact.draw(rng, n), np.empty((n, len(chain.state.theta)))
            for i, theta in enumerate(begun):
                chain.start_at(rng, theta)
                chain.advance(rng, TRANSITIONS, 0.0)
                ended[i] = chain.state.theta
            assert np.mean(np.any(ended != begun, axis=1)) > MOVED, "chains hardly move"
            fresh = exact.draw(rng, n)
            return np.array([*map(_same_law, _features(ended, exact), _features(fresh, exact))])

        return test_in_stages(p_values, n, alarm)


def _features(draws: np.ndarray, exact: Exact) -> list[np.ndarray]:
    """Return the parameters, the log density, and products of pairs, which are compared."""
    d = draws.shape[1]
    centred = draws - exact.posterior.mean
    pairs = [centred[:, i] * centred[:, j] for i in range(d) for j in range(i)]
    return [*draws.T, exact.density(draws), *pairs]


def _same_law(a: np.ndarray, b: np.ndarray) -> float:
    return float(stats.ks_2samp(a, b, method="asymp").pvalue)


test_combination.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's
