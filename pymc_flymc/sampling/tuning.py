"""What a chain learns while it tunes, and freezes when tuning stops."""

from dataclasses import dataclass, field

import numpy as np

#: Autocorrelation that neighbouring draws should have: about 0.8 effective draws per draw.
TARGET_AUTOCORRELATION = 0.1
#: And where a transition takes long, for at least a third of an effective draw per draw: two
#: transitions are worth less than twice one, and draws of one are soon there.
LARGEST_AUTOCORRELATION = 0.5
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
    # Less the noise that the largest of many estimates carries.
    noise = np.sqrt(2.0 * np.log(len(lag_one) + 1.0) / len(draws))
    return float(np.clip(np.max(lag_one) - noise, np.mean(lag_one), 0.98))
