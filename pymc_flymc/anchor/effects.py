"""Parameters that are effects of groups, and their curvatures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.matrices import LARGEST_DENSE, are_sparse

#: With more than `LARGEST_DENSE` parameters, effects in variables larger than this are
#: diagonal elements of a `Geometry`.
LARGE_VARIABLE = 100
#: Most effects per group whose covariance is taken into account.
MAX_COUPLED = 8
#: Curvatures of diagonal elements are probed for all groups at once, and for each slope separately
#: up to this number of slopes.
MAX_SLOPES = 64
#: A parameter has collapsed if its conditional precision has grown by this factor.
COLLAPSE = 1e4
#: And if rows account for less than this share of its precision.
UNINFORMED = 0.01


@dataclass(frozen=True)
class Effects:
    """Parameters by their role, as indices in theta."""

    integrated_out: np.ndarray  #: Effects of groups: they enter sparse columns only.
    dense: np.ndarray  #: Elements in the dense block of a `Geometry`.
    diagonal: np.ndarray  #: Elements in its diagonal block: effects, variable by variable.
    #: Sets of diagonal elements with little coupling, which together are all of them.
    probes: list[np.ndarray]
    #: Variables of effects that are dense, as of a factor of ten levels next to one of a thousand.
    few: list[np.ndarray]
    #: For variables with several effects of each group: where they begin among the diagonal
    #: elements, how many effects, and how many groups.
    runs: list[tuple[int, int, int]]
    #: Effects whose prior has heavy tails, as Student t or Laplace distributions have.
    heavy_tailed: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


def find_effects(density: ExpandedDensity, designs: Sequence[Design], layout: Layout) -> Effects:
    """Return the effects of groups, and the other parameters.

    Effects are the elements of variables that change coefficients of sparse columns and no others.
    Short variables that do so are taken to be means and scales of effects. They have no more
    elements than the square root of the number of sparse columns, in the largest of the designs.
    With more than `LARGEST_DENSE` parameters they are effects, too, if each has its own column:
    with a scale, their joint density would have no mode.
    """
    size = layout.size
    is_large = size > LARGEST_DENSE
    most_sparse = max(design.n_sparse for design in designs)
    is_effect, is_diagonal = np.zeros(size, bool), np.zeros(size, bool)
    probes: list[np.ndarray] = []
    few: list[np.ndarray] = []
    runs: list[tuple[int, int, int]] = []
    in_sparse = np.concatenate([_in_sparse(design) for design in designs])
    rng = np.random.default_rng(20141104)
    theta = 0.1 * rng.standard_normal(size)  # no product vanishes by chance
    for shape, place in zip(layout.shapes, layout.places, strict=True):
        span = np.arange(place.start, place.stop)
        is_long = len(span) > np.sqrt(most_sparse)
        if not (most_sparse and (is_long or (is_large and len(span) > 1))):
            continue
        direction = np.zeros(size)
        direction[span] = rng.standard_normal(len(span))
        change = density.pushforward(theta, direction)
        if np.any(change[~in_sparse]) or not np.any(change[in_sparse]):
            continue
        if not is_long and np.count_nonzero(change) > len(span):
            continue
        is_effect[span] = True
        if is_large and len(span) > LARGE_VARIABLE:
            is_diagonal[span] = True
            # The longest axis is the axis of the groups.
            groups_first = np.moveaxis(span.reshape(shape), int(np.argmax(shape)), 0)
            slopes = groups_first.reshape(max(shape), -1).T
            if 1 < len(slopes) <= MAX_COUPLED:
                runs.append((sum(map(len, probes)), *slopes.shape))
            probes += list(slopes) if len(slopes) <= MAX_SLOPES else [span]
        else:
            few.append(span)
    return Effects(
        np.flatnonzero(is_effect),
        np.flatnonzero(~is_diagonal),
        np.concatenate([np.empty(0, np.int64), *probes]),
        probes,
        few,
        runs,
    )


def _in_sparse(design: Design) -> np.ndarray:
    """Return which coefficients are those of sparse columns."""
    sizes = design.width, design.n_sparse, design.n_predictors
    return are_sparse(design.n_coefficients, *sizes)


def moving(density: ExpandedDensity, theta: np.ndarray) -> np.ndarray:
    """Return the indices of the parameters that change coefficients; none if all of them do."""
    found = np.flatnonzero(density.jacobian(nearby(theta)).any(axis=0))
    return found if len(found) < len(theta) else np.empty(0, np.int64)


def collapsed(
    density: ExpandedDensity, expansion: JointExpansion, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Return the indices of parameters that a search has followed into a funnel of their prior."""
    # If no row depends on a ~ Normal(0, sigma), the joint density of a and sigma grows without
    # limit as both go to zero. On the way there the conditional precision of a grows, too. So does
    # the precision of an element of a Cholesky factor, if groups have nearly equal effects: rows
    # depend on it, but the prior says far more.
    of_all = expansion.pack()
    before, after = (-np.diag(density.hessian(theta, of_all)) for theta in (start, end))
    grown = np.flatnonzero(after > COLLAPSE * np.maximum(before, 1.0))
    if not len(grown):
        return grown
    of_rows = after + np.diag(density.hessian(end, expansion.flat().pack()))
    return grown[of_rows[grown] < UNINFORMED * after[grown]]


#: Least number of probes of the curvature of diagonal elements, if they are not exact.
PROBES = 8
#: Largest relative difference of probes that are exact.
SAME = 1e-9
#: Least eigenvalue of the correlation matrix of a group's effects: below, it is not used.
PROPER = 1e-3


class Curvatures(NamedTuple):
    """Second derivatives in effects of groups, with their sign changed."""

    diagonal: np.ndarray  #: Of effects, and zero for all others, (D,).
    #: Where a variable begins among the diagonal elements, and the matrices (J, K, K) of its J
    #: groups, as they are probed: neither symmetric nor positive definite. Variables whose groups
    #: are coupled are left out.
    blocks: list[tuple[int, np.ndarray]]

    def usable(self, more: np.ndarray, effects: Effects) -> Self:
        """Return the same with more curvature, (D,), and none that is zero or negative."""
        diagonal = self.diagonal + more
        # With diagonal elements noise, or no mode in a direction: the median of the others.
        for places in effects.probes + effects.few if len(effects.diagonal) else []:
            own = diagonal[places]
            good = own > least_curvature(own)
            diagonal[places] = np.where(good, own, np.median(own[good]) if good.any() else 1.0)
        return self._replace(diagonal=diagonal)


class Probes:
    """Directions along which the curvatures of effects are found, and how often each is probed.

    A probe is exact if effects that are probed together are not coupled, as of one grouping factor,
    else right on average. This depends on the rows, and not on where the curvatures are: once it is
    known, each direction is probed once.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects, n_probes = effects, len(effects.probes)
        self._n_repeats = -(-PROBES // n_probes) if n_probes else 0
        if effects.runs:  # two probes disagree if groups are coupled
            self._n_repeats = max(self._n_repeats, 2)
        self._uncoupled: list[bool] | None = None

    def __call__(self, times: Callable[[np.ndarray], np.ndarray], size: int) -> Curvatures:
        """Return curvatures, given a function that multiplies a Hessian by a vector, (D,)."""
        effects, rng = self._effects, np.random.default_rng(20141104)
        diagonal, exact = np.zeros(size), True
        runs = [
            effects.diagonal[start : start + k * j].reshape(k, j) for start, k, j in effects.runs
        ]
        # For each run the matrices of its groups, a column for each slope, for each time probed.
        columns: list[list[np.ndarray]] = [[] for _ in runs]
        for places in effects.probes + effects.few:
            run = next((i for i, at in enumerate(runs) if np.isin(places[0], at)), None)
            probed, together = [], []
            for _ in range(self._n_repeats):
                signs = rng.choice([-1.0, 1.0], len(places))
                along = times(indicator(size, places, signs))
                probed.append(-signs * along[places])
                if run is not None:
                    together.append((-signs * along[runs[run]]).T)
            total = np.mean(probed, axis=0)
            exact = exact and _agree(np.array(probed), total)
            diagonal[places] = total
            if run is not None:
                columns[run].append(np.array(together))
        matrices = [np.stack(each, axis=3) for each in columns]
        if self._uncoupled is None:
            self._uncoupled = [_agree(each, each.mean(axis=0)) for each in matrices]
            if exact:
                self._n_repeats = min(self._n_repeats, 1)
        found = zip(effects.runs, matrices, self._uncoupled, strict=True)
        return Curvatures(
            diagonal, [(run[0], each.mean(axis=0)) for run, each, uncoupled in found if uncoupled]
        )


def proper(curvatures: Curvatures, diagonal: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return the precision of each group's effects, made symmetric and positive definite."""
    found = []
    for start, probed in curvatures.blocks:
        j, k, _ = probed.shape
        own = curvatures.diagonal[diagonal[start : start + k * j]].reshape(k, j).T
        each = 0.5 * (probed + probed.transpose(0, 2, 1))
        each[:, range(k), range(k)] = own
        size = np.sqrt(own[:, :, None] * own[:, None, :])
        bad = np.linalg.eigvalsh(each / size).min(axis=1) < PROPER
        each[bad] = own[bad][:, :, None] * np.eye(k)
        found.append((start, each))
    return found


def indicator(size: int, places: np.ndarray | int, values: np.ndarray | float) -> np.ndarray:
    """Return a vector of zeros with values at some places."""
    out = np.zeros(size)
    out[places] = values
    return out


def least_curvature(curvature: np.ndarray) -> float:
    """Return the least curvature that exceeds the rounding error of zero, in any units."""
    largest = float(np.max(np.abs(curvature[np.isfinite(curvature)]), initial=0.0))
    return np.finfo(float).eps * largest if largest > 0.0 else 1.0


def _agree(probed: np.ndarray, mean: np.ndarray) -> bool:
    """Return whether probes are the same up to rounding; NaN is not."""
    size = np.abs(mean)
    return bool((np.abs(probed - mean) <= SAME * (size + size.max())).all())
