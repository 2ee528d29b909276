"""Plots of a run in the style of ArviZ: what each parameter cost, and which rows are bright."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import rcParams
from arviz_base.labels import BaseLabeller
from arviz_plots import PlotCollection
from arviz_plots.visuals import (
    annotate_xy,
    backend_from_object,
    labelled_title,
    labelled_x,
    labelled_y,
    scatter_xy,
    set_xscale,
    set_ylim,
    set_yscale,
    vline,
)
from pytensor.graph.replace import clone_replace
from scipy.special import expit

from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.posterior import row_terms
from pymc_flymc.order import ascending
from pymc_flymc.run_report import Run
from pymc_flymc.sampling.diagnostics import evenly
from pymc_flymc.steps.step import FireflyStep
from pymc_flymc.target.data import design_of
from pymc_flymc.target.target import Target


class Brightness(NamedTuple):
    """Some rows of a likelihood, and how bright they are.

    Attributes
    ----------
    predictor : ndarray, shape (n, K)
        Mean over draws of their linear predictors, in the order in which the model has them.
    spread : ndarray, shape (n,)
        Posterior standard deviation of the predictor, of several the root of the sum of squares.
    probability : ndarray, shape (n,)
        Mean over draws of the probability of being bright given the parameters.
    """

    predictor: np.ndarray
    spread: np.ndarray
    probability: np.ndarray


def row_brightness(idata: Any, step: FireflyStep, rows: int, draws: int) -> list[Brightness]:
    r"""Return the brightness of an even choice of rows of each likelihood, over some draws.

    Given the parameters a row is bright with the probability :math:`1 - B_n / L_n`, which needs no
    brightness of the run itself, and is known of rows that are bright once in a million draws.

    Parameters
    ----------
    idata : DataTree
    step : FireflyStep
        The step that made the draws, or one built for the same model: its bounds are used, at the
        expansion point that it found before sampling.
    rows, draws : int
        How many at most.

    Raises
    ------
    ValueError
        If rows are out of core, none is ever dark, or the step is a copy.
    """
    target = step.target
    if not isinstance(target, Target):
        raise ValueError("rows that are read where they are stored (data=) cannot be plotted")
    if not target.subsamples:
        raise ValueError("all rows are read in each step: none is dark, and there is no bound")
    coefficients, terms = [], _Terms(target, rows)
    found = []
    for theta, others in _states(idata["posterior"], step, draws):
        w = terms.coefficients(theta, others)
        coefficients.append(w)
        found.append(terms.probabilities(w))
    probability = np.mean(found, axis=0)
    return terms.split(np.array(coefficients), probability)


class _Terms:
    """Evaluates the same rows at any parameters."""

    def __init__(self, target: Target, most: int) -> None:
        self.target, parts = target, target.data.parts
        self.chosen = [evenly(len(part.X), most) for part in parts]
        numbers = zip(parts, self.chosen, strict=True)
        self.index = np.concatenate([part.first + n for part, n in numbers])
        self.scratch = scratch_for(target.data.rows)
        self.always = np.zeros(len(self.index), bool)
        if target.data.exact is not None:  # of these the constants say nothing
            self.always = ~parts[0].constants[self.index][:, [ROW.near, ROW.beyond]].any(axis=1)

    def coefficients(self, theta: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the coefficients of all likelihoods, with what the rows of each share."""
        w = np.empty(self.target.n_slopes)
        self.statistics = np.concatenate([self.target.statistics, others])
        self.target.density(theta, self.statistics, w)
        return w

    def probabilities(self, w: np.ndarray) -> np.ndarray:
        """Return the rows' probabilities of being bright."""
        posterior = self.target.posterior(self.statistics, self.target.geometry)
        factors, rates = row_terms(posterior, w, self.index, np.zeros(0), self.scratch)
        # A bright row counts exp(factor), a dark one exp(-rate).
        return np.where(self.always, 1.0, expit(factors + rates))

    def split(self, coefficients: np.ndarray, probability: np.ndarray) -> list[Brightness]:
        """Return what each likelihood has, for coefficients of some draws, shape (R, ...)."""
        out, start, first = [], 0, 0
        parts = self.target.data.parts, self.target.parts, self.target.graph.sizes, self.chosen
        for rows, part, size, chosen in zip(*parts, strict=True):
            w = coefficients[:, start : start + size]
            eta, _ = design_of(rows).rows(chosen).predictors(w)
            spread = np.sqrt(eta.var(axis=1).sum(axis=-1))
            of_these = probability[first : first + len(chosen)]
            out.append(Brightness(eta.mean(axis=1), spread, of_these))
            start, first = start + size + part.bound.n_shared, first + len(chosen)
        return out


def _states(posterior: Any, step: FireflyStep, most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return an even choice of draws as the step has them: its variables, and those of others."""
    model = step.model
    if model is None:
        raise ValueError("a copy of a step has no model: give the step that was copied")
    variables = model.free_RVs
    if missing := [rv.name for rv in variables if rv.name not in posterior]:
        raise ValueError(
            f"the posterior has no draws of {missing}: sample without var_names, or with all of "
            "the model's free variables among them"
        )
    given = {rv: rv.type(rv.name) for rv in variables}
    values = [posterior[rv.name].transpose("chain", "draw", ...).to_numpy() for rv in variables]
    chosen = evenly(values[0].shape[0] * values[0].shape[1], most)
    flat = [value.reshape(-1, *value.shape[2:])[chosen] for value in values]
    unconstrain = pm.compile(
        list(given.values()), _unconstrained(model, given), mode="FAST_COMPILE"
    )
    names = [model.rvs_to_values[rv].name for rv in variables]
    points = [dict(zip(names, unconstrain(*draw), strict=True)) for draw in zip(*flat, strict=True)]
    return [step.flatten(point) for point in points]


def _unconstrained(model: pm.Model, given: dict[Any, Any]) -> Sequence[Any]:
    """Return graphs of unconstrained values, of variables given on the model's own scale."""
    transforms = [(rv, model.rvs_to_transforms[rv]) for rv in given]
    graphs = [rv if t is None else t.forward(rv, *rv.owner.inputs) for rv, t in transforms]
    return clone_replace(graphs, replace=given)  # type: ignore[no-any-return]


#: Parameters that have room in a plot: of more the costliest.
SHOWN = 40
#: Smaller probabilities of being bright are drawn there: such a row is never seen bright.
LEAST_PROBABILITY = 1e-9
#: Height of a parameter's line, and of all else, in inches; width of its panel.
LINE, MARGIN, WIDTH = 0.3, 2.2, 7.0
#: Width and height of a panel of rows.
PANEL = 3.6, 3.4
#: Of this package's steps, as in all figures of the documentation; of all else.
FIREFLY, NEITHER = "#D55E00", "#666666"


def plot_cost(idata: Any, backend: str | None = None, **pc_kwargs: Any) -> PlotCollection:
    """Plot the rows read per effective draw of each parameter.

    Parameters
    ----------
    idata : DataTree
        As of `report`.
    backend : {"matplotlib", "bokeh", "plotly"}, optional
        As of ArviZ's plots.
    **pc_kwargs
        Passed to ``arviz_plots.PlotCollection.wrap``.

    Returns
    -------
    PlotCollection
        With a point for each scalar parameter, the costliest above; of more than 40 parameters
        these 40. A line is where every row is read once.

    Raises
    ------
    ValueError
        If it was not sampled by one step of this package.

    See Also
    --------
    report : the same of the slowest parameter, with advice.
    plot_brightness : which rows are read.

    Examples
    --------
    >>> idata = pm.sample(step=FireflyMH())
    >>> pymc_flymc.plot_cost(idata)
    """
    run = Run(idata)
    order = ascending(run.read_for)
    order = order[np.isfinite(run.read_for[order])][-SHOWN:]
    heights = np.arange(len(order), dtype=np.float64)
    found = xr.Dataset({"cost": _points(run.read_for[order], heights)})
    size = WIDTH, LINE * len(order) + MARGIN
    plot = _collection(found, size, backend, pc_kwargs)
    name, rows = "all rows once", float(run.n_rows)
    plot.map(_line_at, name, value=rows, color=NEITHER, ignore_aes="all")
    text = {"text": name, "color": NEITHER, "horizontal_align": "right"}
    plot.map(_text_at, f"{name} text", x=rows, y=float(len(order)), **text)
    plot.map(scatter_xy, "cost", color=FIREFLY, ignore_aes="all")
    names = [run.names[j] for j in order]
    plot.map(_name_lines, "names", heights=heights, names=names, store_artist=False)
    plot.map(set_ylim, "ylim", limits=(-0.7, len(order) + 0.7), store_artist=False)
    return _finish(plot, "rows per effective draw", None, ("x",))


def plot_brightness(
    idata: Any,
    step: FireflyStep,
    rows: int = 2000,
    draws: int = 50,
    backend: str | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot how often rows are bright, against how uncertain their predictors are.

    Given the parameters a row is bright with the probability 1 - B / L, with its likelihood L and
    its bound B. So this is the gap between them as well, and the plot needs no more than a few
    draws, also of rows that are bright once in a million draws.

    Parameters
    ----------
    idata : DataTree
        What ``pm.sample`` returned, or what has been saved of it: its group ``posterior``.
    step : FireflyMH, FireflyHMC, FireflyMALA or FireflySlice
        The step that made the draws, or another one for the same model.
    rows, draws : int
        An even choice of so many rows of each likelihood, and of so many draws.
    backend, **pc_kwargs
        As of `plot_cost`.

    Returns
    -------
    PlotCollection
        For each likelihood with a panel against the posterior standard deviation of the row's
        linear predictor, the root of its leverage, and, of likelihoods with one predictor, a panel
        against its mean.

    Raises
    ------
    ValueError
        If no row is ever dark, if rows are out of core, or if the posterior lacks free variables
        of the model.

    See Also
    --------
    report : how many rows are bright, with advice.
    plot_cost : what that comes to for each parameter.

    Examples
    --------
    >>> with model:
    ...     step = FireflyMH()
    ...     idata = pm.sample(step=step)
    >>> pymc_flymc.plot_brightness(idata, step)
    """
    panels = {}
    found = row_brightness(idata, step, rows, draws)
    for name, each in zip(step.observed, found, strict=True):
        y = np.maximum(each.probability, LEAST_PROBABILITY)
        panels[f"{name}, by leverage"] = _points(each.spread, y, "posterior sd of the predictor")
        if each.predictor.shape[1] == 1:
            eta = each.predictor[:, 0]
            panels[f"{name}, by predictor"] = _points(eta, y, "mean of the predictor")
    size = PANEL[0] * min(len(panels), 2), PANEL[1] * ((len(panels) + 1) // 2)
    data = xr.Dataset(panels)
    plot = _collection(data, size, backend, {"col_wrap": 2} | pc_kwargs)
    plot.map(scatter_xy, "rows", color=FIREFLY, alpha=0.4, size=8, ignore_aes="all")
    plot.map(labelled_title, "title", subset_info=True, labeller=BaseLabeller())
    return _finish(plot, None, "probability of being bright", ("y",))


def _points(x: Any, y: Any, label: str = "") -> xr.DataArray:
    """Return points as ArviZ's visuals take them; the label is that of their horizontal axis."""
    values = np.stack([np.atleast_1d(x), np.atleast_1d(y)])
    axes = {"plot_axis": ["x", "y"]}
    return xr.DataArray(values, axes, ("plot_axis", "point"), attrs={"label": label})


def _collection(
    data: xr.Dataset, size: tuple[float, float], backend: str | None, pc_kwargs: dict[str, Any]
) -> PlotCollection:
    """Return a panel for each variable of the data."""
    settings, backend = dict(pc_kwargs), backend or rcParams["plot.backend"]
    figure = {"figsize": size, "figsize_units": "inches"} | settings.pop("figure_kwargs", {})
    if backend == "matplotlib":  # labels of low figures would be cut off where these are saved
        figure = {"layout": "constrained"} | figure
    settings = {"cols": ["__variable__"], "backend": backend, "figure_kwargs": figure} | settings
    return PlotCollection.wrap(data, **settings)


def _finish(
    plot: PlotCollection, x_label: str | None, y_label: str | None, scales: tuple[str, ...]
) -> PlotCollection:
    """Name the axes, the horizontal one after the points if it is not said, with logarithms."""
    plot.map(_name_axes, "labels", x_label=x_label, y_label=y_label, store_artist=False)
    for axis, scale in (("x", set_xscale), ("y", set_yscale)):
        if axis in scales:
            plot.map(scale, f"{axis}scale", scale="log", store_artist=False, ignore_aes="all")
    return plot


def _line_at(da: xr.DataArray, target: Any, value: float, **kwargs: Any) -> Any:
    return vline(xr.DataArray(value), target, **kwargs)


def _text_at(da: xr.DataArray, target: Any, x: float, y: float, text: str, **kwargs: Any) -> Any:
    points = _points(np.array(x), np.array(y))
    return annotate_xy(points, target, text=text, **kwargs)


def _name_lines(
    da: xr.DataArray, target: Any, heights: np.ndarray, names: list[str], **kwargs: Any
) -> None:
    backend_from_object(target).yticks(heights, names, target, **kwargs)


def _name_axes(
    da: xr.DataArray, target: Any, x_label: str | None, y_label: str | None, **kwargs: Any
) -> None:
    labelled_x(da, target, text=x_label or da.attrs["label"], **kwargs)
    if y_label is not None:
        labelled_y(da, target, text=y_label, **kwargs)
