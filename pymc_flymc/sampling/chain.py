"""One chain of (theta, z): buffers, start, transitions, and a state that can be saved."""

from typing import Any

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.compat.numba import entry_point
from pymc_flymc.kernels.brightness import make_bright_set
from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.fresh_brightness import MOVED
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.native import address_of_generator, map_fields
from pymc_flymc.kernels.posterior import make_chain
from pymc_flymc.target.collapsed_density import describe_violation
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target

#: Starting points are this many posterior standard deviations around the anchor, so that R-hat can
#: tell whether chains have forgotten them. Group-level effects start at one standard deviation: all
#: of thousands at two would be far beyond where the posterior has any mass.
OVERDISPERSION = 2.0
#: A chain is far out while so many times more rows are bright than expected. At a point twice as
#: far out as draws are, there are some eight times more.
TIMES_EXPECTED = 20.0
#: Starts that are far out are drawn again nearer to the anchor, down to this share of the distance.
NEAREST = 0.1


class FireflyChain:
    """Mutable state of one chain over a `Target`, and the kernels that advance it.

    `kernel_parameters`: settings of the target's kernel as a chain starts with them. Those that are
    arrays may be adapted; the kernel adapts them itself while ``kernel_parameters.gain[0]`` is not
    zero. `anchor`: the target's anchor, if it is not the step's first.
    """

    def __init__(
        self,
        target: Target,
        resampling: Resampling,
        kernel_parameters: Any,
        anchor: Anchor | None = None,
    ) -> None:
        self.target, self.anchor = target, anchor
        n_parameters = len(target.geometry.centre)
        n_rows = sum(len(part.X) for part in target.data.parts)
        self.cursor = np.zeros(1, np.int64)
        self.plan = target.spec.plan(target, resampling, self.cursor)
        self.bright = make_bright_set(n_rows)
        self.state = make_chain(n_parameters, target.n_slopes, n_rows)
        self.scratch = scratch_for(target.data.rows)
        self.kernel_parameters = _copy(kernel_parameters)
        self.geometry = target.geometry
        self.others = np.zeros(target.n_others)
        self.statistics = np.concatenate([target.statistics, self.others])
        self._n_collapsed = len(self.statistics) - target.n_others
        self.started = False
        self._run = entry_point(target.compiled_kernel())

    def log_density_at(self, v: np.ndarray) -> float:
        """Log prior and collapsed bounds, or expansions, at standardised v; no row is read."""
        return float(
            self.target.density(self.geometry.unstandardise(v), self.statistics, self.state.w_new)
        )

    def start(self, rng: np.random.Generator, v: np.ndarray, moved: bool = False) -> float:
        """Move to standardised coordinates v and draw all of z: O(N).

        Parameters
        ----------
        v : ndarray, shape (D,)
        moved : bool
            Whether another step has moved there a chain that has started. Then joint updates draw z
            from its conditional distribution, and not as they propose it.

        Returns
        -------
        float
            Log density (prior and collapsed bounds, or expansions) at v; -inf outside the support,
            and where the likelihood of a row that is read is zero or not a number.
        """
        self.started = False  # until the run below returns: the model's graph may raise
        self.state.v[:] = v
        begin = MOVED if moved and self.target.spec.fresh else 0
        self._run(address_of_generator(rng), begin, *self._arguments())
        self.started = True
        of_rows = self.bright.log_factor[: self.n_bright].sum()
        if self.target.spec.fresh:  # the factors of a z that was not accepted are not kept
            of_rows = self.state.log_weight[0]
        return float(self.state.log_density[0]) if np.isfinite(of_rows) else -np.inf

    def start_at(self, rng: np.random.Generator, theta: np.ndarray) -> float:
        """As `start`, from unconstrained parameters; moved there, if the chain has started."""
        log_density = self.start(rng, self.geometry.standardise(theta), self.started)
        self.state.theta[:] = theta  # to the last bit: v is theta's up to rounding
        return log_density

    def start_dispersed(self, rng: np.random.Generator, spread: float = OVERDISPERSION) -> bool:
        """As `start`, from a point drawn around the anchor; False if none is in the support.

        A point where many times more rows are bright than expected is replaced by one nearer to the
        anchor: a chain would read these rows for as long as it takes to come in. A point at which
        the model's graph raises is replaced, too, because no draw needs it. If no point is found,
        the last such error is raised.
        """
        raised: Exception | None = None
        nearness = 1.0
        for _ in range(50):
            found = False
            v = nearness * rng.standard_normal(len(self.state.v))
            v[self.geometry.dense] *= spread
            try:
                # Without rows first: with them it is a pass.
                found = np.isfinite(self.log_density_at(v)) and np.isfinite(self.start(rng, v))
            except Exception as error:  # of a user's own type
                raised = error
            if found and (nearness < NEAREST or not self.is_far_out):
                return True
            if found:
                nearness *= 0.5
            else:
                spread *= 0.8  # beyond the support of a bounded variable
        if raised is not None:
            raise raised
        return False

    def set_geometry(self, geometry: Geometry) -> None:
        """Go on in other standardised coordinates, at the same parameters."""
        self.geometry = geometry
        self.state.v[:] = self.geometry.standardise(self.state.theta)

    def set_others(self, others: np.ndarray) -> None:
        """Take over values of variables that belong to other step methods, if they changed.

        The log density of a surrogate is then without its exact rows, which the kernel adds as it
        begins.
        """
        if not np.array_equal(others, self.others):
            state, before = self.state, self.state.log_density[0]
            statistics = np.concatenate([self.statistics[: self._n_collapsed], others])
            if self.started:  # first, for it may raise: then nothing has been taken over
                state.log_density[0] = self.target.density(state.theta, statistics, state.w_new)
                if self.target.spec.weighs_density:
                    state.log_weight[0] += state.log_density[0] - before
            self.others[:], self.statistics[:] = others, statistics

    def advance(self, rng: np.random.Generator, n: int, gain: float) -> float:
        """Make n transitions; return the mean acceptance probability.

        `gain`: Robbins-Monro gain of the adaptation of the scales; zero after tuning.
        """
        self.kernel_parameters.gain[0] = gain
        return float(self._run(address_of_generator(rng), n, *self._arguments()))

    @property
    def n_bright(self) -> int:
        """Number of bright rows."""
        return int(self.bright.count[0])

    @property
    def is_far_out(self) -> bool:
        """Whether many times more rows are bright than expected."""
        return self.n_bright > TIMES_EXPECTED * (self.target.expected_bright + 1.0)

    @property
    def log_weight(self) -> float:
        """Log weight of the state under joint updates; NaN under conditional ones."""
        return float(self.state.log_weight[0]) if self.target.spec.fresh else np.nan

    @property
    def rescaling_acceptance_probability(self) -> float:
        """Mean acceptance probability of the last moves of scales; NaN if there are none."""
        return float(self.state.rescaled[0])

    def take_queries(self) -> int:
        """Likelihood queries since the last call."""
        return _taken(self.scratch.queries)

    def take_not_finite(self) -> int:
        """Log ratios that were NaN or positive infinity since the last call: taken as -inf."""
        return _taken(self.scratch.not_finite)

    def take_violations(self) -> int:
        """Violated bounds that were met since the last call."""
        return _taken(self.scratch.violations)

    def describe_violation(self) -> str:
        """Return a message on the last violated bound."""
        row, parts = int(self.scratch.violated[0]), self.target.data.parts
        i = max(i for i, part in enumerate(parts) if part.first <= row)
        part = self.target.parts[i]
        return describe_violation(part.bound, part.likelihood, row - parts[i].first)

    def _arguments(self) -> tuple[Any, ...]:
        posterior = self.target.posterior(self.statistics, self.geometry)
        return posterior, self.plan, self.kernel_parameters, self.state, self.bright, self.scratch

    def save(self) -> dict[str, Any]:
        """Copy of all that the next transition depends on: O(D + bright rows), never O(N)."""
        n = self.n_bright
        return {
            "started": self.started,
            "v": self.state.v.copy(),
            "theta": self.state.theta.copy(),
            "w": self.state.w.copy(),
            "log_density": float(self.state.log_density[0]),
            "log_weight": float(self.state.log_weight[0]),
            "others": self.others.copy(),
            "bright": self.bright.index[:n].copy(),
            "log_factor": self.bright.log_factor[:n].copy(),
            "cursor": int(self.cursor[0]),
            "kernel_parameters": _copy(self.kernel_parameters),
            "geometry": self.geometry,
            "anchor": self.anchor,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Return to a saved state; its anchor is that of this chain."""
        self.started = saved["started"]
        self.state.v[:] = saved["v"]
        self.state.theta[:] = saved["theta"]
        self.state.w[:] = saved["w"]
        self.state.log_density[0] = saved["log_density"]
        self.state.log_weight[0] = saved["log_weight"]
        self.others[:] = saved["others"]
        self.statistics[self._n_collapsed :] = saved["others"]
        self.bright.slot[self.bright.index[: self.n_bright]] = 0
        n = len(saved["bright"])
        self.bright.index[:n] = saved["bright"]
        self.bright.log_factor[:n] = saved["log_factor"]
        self.bright.slot[saved["bright"]] = np.arange(1, n + 1)
        self.bright.count[0] = n
        self.cursor[0] = saved["cursor"]
        self.kernel_parameters = _copy(saved["kernel_parameters"])
        self.geometry = saved["geometry"]
        for take in (self.take_queries, self.take_not_finite, self.take_violations):
            take()


def _taken(counter: np.ndarray) -> int:
    """Return a counter's value, and set it to zero."""
    value, counter[0] = int(counter[0]), 0
    return value


def _copy(record: Any) -> Any:
    """Copy of a record, with copies of its arrays."""
    return map_fields(record, lambda each: each.copy() if isinstance(each, np.ndarray) else each)
