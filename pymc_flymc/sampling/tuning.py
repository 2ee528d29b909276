"""What a chain learns while it tunes: preconditioners, and what is frozen after tuning."""

from dataclasses import dataclass, field

import numpy as np

from pymc_flymc.kernels.geometry import Geometry

#: Weight of the old coordinates, in draws: a few draws say little about a variance.
CONFIRMING = 5.0
#: Parts of a chain whose covariances are compared.
PARTS = 5
#: The noise is taken to be this many times what the parts' differences show, because parts depend
#: on each other, too, and noise can only spoil coordinates that are good already.
DOUBT = 2.0


def diagonal_geometry(geometry: Geometry) -> Geometry:
    """Coordinates scaled by each parameter's standard deviation, without correlations."""
    d = len(geometry.centre)
    scale = np.empty(d)
    scale[geometry.dense] = np.linalg.norm(geometry.factor, axis=1)
    from_dense = np.linalg.norm(geometry.coupling.T @ geometry.factor, axis=1)
    scale[geometry.diagonal] = np.hypot(geometry.conditional_sds(), from_dense)
    alone = geometry._replace(centre=np.zeros(d), stretch=geometry.stretch[:0])
    for direction, more in zip(geometry.directions, geometry.stretch, strict=True):
        scale = np.sqrt(scale**2 + ((1.0 + more) ** 2 - 1.0) * alone.spread(direction) ** 2)
    empty = np.empty(0, np.int64)
    parts = geometry.centre, empty, np.arange(d), np.empty((0, 0)), scale, np.empty((0, d))
    return Geometry(*parts, following=geometry.following)


def isotropic_geometry(geometry: Geometry) -> Geometry:
    """Coordinates with one scale for all parameters: the root mean square of their own."""
    diagonal = diagonal_geometry(geometry)
    rms = np.sqrt(np.mean(diagonal.scale**2))
    return diagonal._replace(scale=np.full_like(diagonal.scale, rms))


def learn_geometry(geometry: Geometry, draws: np.ndarray) -> Geometry:
    """Coordinates in which draws would be about N(0, I).

    `geometry`: the coordinates of the draws. `draws` (n, D): a chain's standardised coordinates
    while it tuned.
    """
    n, mean = len(draws), draws.mean(axis=0)
    draws, centre = draws - mean, geometry.centre + geometry.spread(n / (n + CONFIRMING) * mean)
    if len(geometry.stretch):
        along = draws @ geometry.directions.T
        sds = np.sqrt((np.sum(along**2, axis=0) + CONFIRMING) / (n + CONFIRMING))
        geometry = geometry._replace(stretch=(1.0 + geometry.stretch) * sds - 1.0)
        # Variances that directions have learnt must not be learnt by their elements again.
        draws += (along * (1.0 / sds - 1.0)) @ geometry.directions
    dense, variance = draws[:, geometry.dense], _shrunk_variances(draws, geometry.diagonal)
    change = np.sqrt((n * variance + CONFIRMING) / (n + CONFIRMING))
    root = geometry.factor[:0, :0]
    if dense.shape[1]:
        before = CONFIRMING * np.eye(dense.shape[1])
        root = np.linalg.cholesky((n * _shrunk_covariance(dense) + before) / (n + CONFIRMING))
    return geometry._replace(centre=centre).rescaled(change, root)


def _shrunk_variances(draws: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Variances of some elements of n centred draws, shape (n, D), shrunk towards their median.

    The noise in their logarithms says by how much. It is estimated from parts of the chain as in
    `_shrunk_covariance`. With a hundred draws, some of thousands of elements come out wrong by a
    factor of two, and those would be the slowest. Where the old coordinates are right, they are
    kept but for a common scale.
    """
    n, size = len(draws), len(draws) // PARTS
    if size < 2 or not len(places):
        return np.ones(len(places))
    # Never an array of the draws' own size: diagonal elements are many.
    parts = np.stack(
        [
            np.einsum("ij,ij->j", part, part)[places] / size
            for part in np.split(draws[: size * PARTS], PARTS)
        ]
    )
    variances = np.maximum(np.einsum("ij,ij->j", draws, draws)[places] / n, np.finfo(float).tiny)
    noise = np.var(parts / variances, axis=0) / (PARTS - 1)
    logs = np.log(variances)
    before = np.median(logs)
    weight = _weight(noise, logs - before)
    return np.exp((1.0 - weight) * logs + weight * before)


def _shrunk_covariance(draws: np.ndarray) -> np.ndarray:
    """Covariance of n centred draws, shape (n, m), shrunk towards that of the old coordinates.

    The noise in it says by how much (Ledoit & Wolf 2004, section 3.3). It is estimated from parts
    of the chain, because neighbouring draws depend on each other. Variances are shrunk separately
    from correlations, on which a window of fewer draws than parameters has no information. They
    are shrunk towards their median: a few large ones, as of the scales of a horseshoe, would make
    trajectories too long for all others.
    """
    n, m = draws.shape
    sample, total, squares = draws.T @ draws / n, np.zeros((m, m)), np.zeros((m, m))
    size = n // PARTS
    if size < 2:
        return np.eye(m)
    for i in range(PARTS):
        part = draws[i * size : (i + 1) * size]
        each = part.T @ part / size
        total += each
        squares += each**2
    noise = (squares - total**2 / PARTS) / (PARTS * (PARTS - 1))
    variances = np.diag(sample)
    before = np.full(m, np.median(variances))
    pooled = _weight(np.diag(noise), variances - before)
    # One variance that stands out, of a scale among many effects, is judged by its own noise.
    alone = DOUBT * np.diag(noise) / np.maximum((variances - before) ** 2, np.finfo(float).tiny)
    of_variances = np.minimum(pooled, alone)
    np.fill_diagonal(noise, 0.0)
    # At least the weights of variances, so that the result stays positive definite.
    weight = max(pooled, _weight(noise, sample - np.diag(variances)))
    covariance = (1.0 - weight) * sample
    np.fill_diagonal(covariance, (1.0 - of_variances) * variances + of_variances * before)
    return covariance


def _weight(noise: np.ndarray, change: np.ndarray) -> float:
    """Return the weight of the previous values, given the noise of the new estimates."""
    squares = float(np.sum(change**2))
    return min(1.0, DOUBT * float(np.sum(noise)) / squares) if squares > 0.0 else 1.0


#: Autocorrelation that neighbouring draws should have: about 0.8 effective draws per draw.
TARGET_AUTOCORRELATION = 0.1
#: And where a transition takes long, for at least a third of an effective draw per draw: two
#: transitions are worth less than twice one, and draws of one are soon there.
LARGEST_AUTOCORRELATION = 0.5
#: An autocorrelation is not the noise of many if it is beyond their mean by so many times that.
CLEARLY = 1.5
#: Ends of the tuning windows, as fractions of the tuning steps.
WINDOWS = (0.1, 0.2, 0.35, 0.6, 1.0)


@dataclass
class Tuning:
    """Schedule of one chain's adaptation. Deterministic: counts and draws go in, no clocks.

    Parameters
    ----------
    steps : int
        Number of tuning steps.
    transitions : int
        (theta, z) transitions in a step, to begin with.
    fewest, most : int
        Least and largest number of transitions.
    adapt_transitions : bool
        Whether the number of transitions is learnt.
    sparing : bool
        Whether the number changes at the end only: until then draws may be dependent, if nothing
        else is learnt from them.
    autocorrelation : float
        That neighbouring draws should have.
    """

    steps: int
    transitions: int
    fewest: int
    most: int
    adapt_transitions: bool
    sparing: bool = False
    autocorrelation: float = TARGET_AUTOCORRELATION
    step: int = 0
    transitions_done: int = 0
    window: list[np.ndarray] = field(default_factory=list)
    bright: list[int] = field(default_factory=list)
    chosen: int = field(init=False)

    def __post_init__(self) -> None:
        self.chosen = self.transitions

    def gain(self) -> float:
        """Robbins-Monro gain for the transitions of the next step; zero once tuning is over."""
        if self.step >= self.steps:
            return 0.0
        # Per transition; the step size falls with the number of transitions seen.
        return 0.5 / (1.0 + self.transitions_done / 10.0) ** 0.6

    @property
    def is_over(self) -> bool:
        """Whether all tuning steps have been made."""
        return self.step >= self.steps

    def record(self, v: np.ndarray, n_bright: int) -> tuple[np.ndarray, float] | None:
        """Take note of a tuning step's draw `v` (standardised, shape (D,)) and of its bright rows.

        Returns
        -------
        tuple of ndarray and float, or None
            The draws of the window that ends with this step, if one does, and the mean number of
            bright rows.
        """
        self.step += 1
        self.transitions_done += self.transitions
        self.window.append(v.copy())
        self.bright.append(n_bright)
        if self.step not in {round(f * self.steps) for f in WINDOWS}:
            return None
        draws, self.window = np.asarray(self.window), []
        bright, self.bright = float(np.mean(self.bright)), []
        if self.adapt_transitions and len(draws) >= 20:
            self.chosen = self._choose_transitions(draws)
        if self.is_over or not self.sparing:
            self.transitions = self.chosen
        return draws, bright

    def _choose_transitions(self, draws: np.ndarray) -> int:
        slowest = slowest_autocorrelation(draws)
        # An autocorrelation that decays as exp(-transitions / time):
        time = -self.transitions / np.log(max(slowest, 0.02))
        wanted = -time * np.log(self.autocorrelation)
        # One window's estimate is rough: at most a factor of five up or down.
        low, high = self.chosen / 5.0, self.chosen * 5.0
        return int(np.clip(np.round(np.clip(wanted, low, high)), self.fewest, self.most))


def slowest_autocorrelation(draws: np.ndarray) -> float:
    """Autocorrelation of neighbouring draws, shape (n, D), in the slowest coordinate.

    One that never moved is the slowest there can be.
    """
    stuck = np.all(draws == draws[0], axis=0)
    draws = draws - draws.mean(axis=0)
    before, after = draws[:-1], draws[1:]
    # Without arrays of the draws' own size, which is that of all effects of groups.
    power = np.einsum("ij,ij->j", after, after) + np.einsum("ij,ij->j", before, before)
    power = np.maximum(power, np.finfo(float).tiny)
    # (Of equal draws their mean leaves zeros, or what rounding makes of it.)
    lag_one = np.where(stuck, 1.0, 2.0 * np.einsum("ij,ij->j", after, before) / power)
    # Less the noise that the largest of many estimates carries, unless it is far beyond all noise,
    # as that of a scale among many effects.
    largest, mean = np.max(lag_one), np.mean(lag_one)
    noise = np.sqrt(2.0 * np.log(len(lag_one) + 1.0) / len(draws))
    noise = noise if largest - mean < CLEARLY * noise else 1.0 / np.sqrt(len(draws))
    return float(np.clip(largest - noise, mean, 0.98))
