"""Figure 2: iterations of a toy problem in two dimensions, with the bright rows marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from examples.paper.plotting import BRIGHT, DARK, new_figure, save
from pymc_flymc import FireflyMH, ImplicitResampling, JaakkolaJordan

__all__ = ["draw_figure_2", "iterate", "toy"]

#: Of the classes, which have markers of their own, too; and of the parameters.
CLASSES, PARAMETERS = ("#0072B2", "#D55E00"), ("black", "#009E73", "#CC79A7")


def toy(n_rows: int = 60, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in the plane, with a bias in front: shapes (n, 3) and (n,)."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    points = rng.normal(size=(n_rows, 2)) + np.where(y[:, None] == 1, 1.1, -1.1)
    return np.column_stack([np.ones(n_rows), points]), y


def iterate(X: np.ndarray, y: np.ndarray, n: int, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Iterate untuned FlyMC: return theta, shape (n, 3), and whether rows are bright, (n, N)."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = FireflyMH(
            bound=JaakkolaJordan(1.5, slack=0),
            brightness=ImplicitResampling(q=0.1),
            proposal="isotropic",
            transitions=1,
        )
    step.setup_chain(np.random.default_rng(seed), 300, n)
    point, thetas, bright = model.initial_point(), [], np.zeros((n, len(y)), bool)
    for i in range(300 + n):
        if i == 300:
            step.stop_tuning()
        point, _ = step.step(point)
        if i >= 300:
            assert step.chain is not None
            thetas.append(point["beta"])
            bright[i - 300, step.chain.save()["bright"]] = True
    return np.array(thetas), bright


def draw_figure_2(path: Path, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Draw two iterations in a row, and the path of all parameters and all z; return the latter."""
    X, y = toy()
    thetas, bright = iterate(X, y, n)
    # An iteration in which both change, as in the paper's figure.
    both = np.any(thetas[1:] != thetas[:-1], axis=1) & np.any(bright[1:] != bright[:-1], axis=1)
    t = int(np.flatnonzero(both[20:])[0]) + 20
    figure, axes = new_figure(2, 2, (5.2, 5.2), height_ratios=(1.2, 1))
    for ax, at in zip(axes[0], (t, t + 1), strict=True):
        _plane(ax, X, y, bright[at])
        if at > t:
            _line(ax, thetas[t], "0.6")
        _line(ax, thetas[at], "black")
        ax.set_title(f"iteration {at}:\n{bright[at].sum()} of {len(y)} rows bright", fontsize=10)
    for path_of, colour, label in zip(
        thetas.T, PARAMETERS, ("bias", r"$\theta_1$", r"$\theta_2$"), strict=True
    ):
        axes[1, 0].plot(path_of, lw=1, color=colour, label=label)
    axes[1, 0].set(xlabel="iteration", ylabel=r"$\theta$")
    axes[1, 0].legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 0.98))
    order = np.argsort(bright.sum(axis=0))
    colours = ListedColormap([DARK, BRIGHT])
    axes[1, 1].imshow(bright[:, order].T, aspect="auto", cmap=colours, interpolation="none")
    axes[1, 1].set(xlabel="iteration", ylabel="row (orange: bright)")
    save(figure, path)
    return thetas, bright


def _plane(ax: Axes, X: np.ndarray, y: np.ndarray, bright: np.ndarray) -> None:
    for label, (marker, colour) in enumerate(zip("os", CLASSES, strict=True)):
        for shown, face in ((bright, colour), (~bright, "none")):
            rows = (y == label) & shown
            ax.scatter(
                X[rows, 1], X[rows, 2], marker=marker, facecolor=face, edgecolor=colour, s=28
            )
    half_width = np.abs(X[:, 1:]).max() * 1.1
    ax.set(xlim=(-half_width, half_width), ylim=(-half_width, half_width), aspect="equal")


def _line(ax: Axes, theta: np.ndarray, colour: str) -> None:
    """Where both classes are equally probable."""
    x = np.array(ax.get_xlim())
    ax.plot(x, -(theta[0] + theta[1] * x) / theta[2], color=colour, lw=1.2, scalex=False)
    ax.set_ylim(ax.get_xlim())
