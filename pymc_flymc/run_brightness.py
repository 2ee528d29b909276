"""How often rows are bright at the draws of a run, by the bounds that the step has prepared."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.replace import clone_replace
from scipy.special import expit

from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.row_terms import row_terms
from pymc_flymc.sampling.even_choice import evenly
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
