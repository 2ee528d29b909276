"""Figure 1: the bound on the likelihood of one row, and its probability of being bright."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from examples.paper.plotting import BRIGHT, DARK, new_figure, save

__all__ = ["bound", "draw_figure_1"]

XI = 1.5


def bound(eta: np.ndarray, xi: float = XI) -> np.ndarray:
    """Jaakkola and Jordan's bound on the logistic function, tight at xi and -xi."""
    a = -np.tanh(0.5 * xi) / (4.0 * xi)
    b = 0.5
    c = -a * xi**2 + 0.5 * xi - np.log(2.0 * np.cosh(0.5 * xi)) - b * xi
    return np.exp(a * eta**2 + b * eta + c)


def draw_figure_1(path: Path) -> None:
    """Draw both parts of the likelihood, and below it the probability of the brighter part."""
    eta = np.linspace(-6.0, 6.0, 500)
    likelihood, below = 1.0 / (1.0 + np.exp(-eta)), bound(eta)
    figure, (top, bottom) = new_figure(2, 1, (5, 4.2), sharex=True)
    top.fill_between(eta, below, color=DARK, label=r"$B_n(\theta)$: dark")
    top.fill_between(eta, below, likelihood, color=BRIGHT, label=r"$L_n - B_n$: bright")
    top.plot(eta, likelihood, color="0.2", label=r"$L_n(\theta)$")
    top.set(ylabel="likelihood of one row", ylim=(0, 1))
    top.legend(frameon=False, loc="upper left")
    bright = 1.0 - below / likelihood
    bottom.fill_between(eta, bright, 1.0, color=DARK, label="dark")
    bottom.fill_between(eta, bright, color=BRIGHT, label="bright")
    for touch in (-XI, XI):
        bottom.axvline(touch, color="0.4", lw=0.8, ls=":")
    bottom.set(
        xlabel=r"$\eta_n = x_n^\top \theta$, with $\xi = 1.5$",
        ylabel=r"$P(z_n = 1 \mid \theta)$",
        ylim=(0, 1),
    )
    save(figure, path)
