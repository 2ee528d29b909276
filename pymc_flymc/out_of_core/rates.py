"""The Taylor bound of rows out of core: tables of rates of each partition, and sums over all."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pymc_flymc.bounds.bound import Problem
from pymc_flymc.bounds.metric import Radius
from pymc_flymc.bounds.tangent import pack_sums, sums_of_rows
from pymc_flymc.bounds.taylor import Packed, Taylor, cubic_form
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.out_of_core.batch_kernels import RateTables, make_tables
from pymc_flymc.out_of_core.design_builder import DesignBuilder
from pymc_flymc.out_of_core.source import Partition
from pymc_flymc.out_of_core.stored_rows import SourceRows, read_rows
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.passes import blocks_of, sum_rows


@dataclass(frozen=True)
class Rates:
    """All that is needed to bound the remainders of rows.

    Attributes
    ----------
    bound : Taylor
    likelihood : Likelihood
    w : ndarray, shape (P,)
        Coefficients at the anchor.
    radius : Radius
    """

    bound: Taylor
    likelihood: Likelihood
    w: np.ndarray
    radius: Radius


def prepare_rates(problem: Problem, bound: Taylor) -> tuple[Rates, list[Any], np.ndarray, float]:
    """Bound the remainders of all rows, where they are stored, in one pass over them.

    Returns
    -------
    rates : Rates
    tables : list
        References to the `RateTables` of each partition.
    statistics : ndarray
        As of `Taylor.prepare`.
    expected : float
        Expected number of bright rows over the Laplace approximation.
    """
    stored, anchor = problem.design.stored, problem.own
    assert isinstance(stored, SourceRows)
    radius = Radius.of(anchor, problem.design.n_predictors, bound.order + 1)
    rates = Rates(bound, problem.likelihood, anchor.w, radius)
    tables, sums = stored.source.prepare(partial(_bound_partition, stored.builder, rates))
    growth = max(each[1] for each in sums)
    expected = sum(each[0] for each in sums)
    cubic = sum(each[2] for each in sums)
    packed = Packed(radius.ridge, radius.limit, growth, cubic / 6.0)
    statistics = np.concatenate([anchor.expansion.pack(), *packed.ravelled()])
    return rates, tables, statistics, float(expected)


def exact_statistics(problem: Problem) -> np.ndarray:
    """Return the statistics of `Tangent` for normal noise, whose likelihood it is, in one pass."""
    design, w = problem.design, problem.own.w
    sums = sum_rows(design, problem.y, w, partial(_exact_sums, problem.likelihood))
    return pack_sums(problem, sums)


def _exact_sums(
    likelihood: Likelihood, rows: slice, x: Any, arguments: np.ndarray, y: np.ndarray
) -> tuple[Any, ...]:
    eta, *nuisances = arguments
    family: Any = unweighted(likelihood)
    tightness = family.tangent(np.zeros(len(eta)), nuisances)
    return sums_of_rows(likelihood, x, eta, y, tightness, np.zeros(len(eta)))


def _bound_partition(
    builder: DesignBuilder, rates: Rates, partition: Partition
) -> tuple[RateTables, tuple[float, float, Any]]:
    """Return the tables of a partition, its expected rows, growth, cubic form."""
    near, beyond = (np.empty(partition.n_rows, np.float32) for _ in range(2))
    third = RowDerivatives(rates.likelihood).third if rates.bound.order == 3 else None
    expected, growth, cubic = 0.0, 0.0, rates.bound.no_cubic(len(rates.w))
    for chunk in partition.chunks():
        design, y = read_rows(builder, partition, chunk)
        for rows, x, eta, of_rows in blocks_of(design, y, rates.w):
            rows_of = eta, x, of_rows, rates.radius
            *both, each = rates.bound.remainders(rates.likelihood, *rows_of)
            place = slice(chunk.start + rows.start, chunk.start + rows.stop)
            near[place], beyond[place] = map(_rounded_up, both)
            expected -= float(np.expm1(-both[0] * rates.radius.moment).sum())
            growth = max(growth, float(each.max(initial=0.0)))
            if third is not None:
                cubic = cubic + cubic_form(x, third(eta, of_rows))
    return make_tables(near, beyond), (expected, growth, cubic)


def _rounded_up(rates: np.ndarray) -> np.ndarray:
    """Return bounds in float32 that are nowhere below those given."""
    narrow = rates.astype(np.float32)
    return np.where(rates > 0.0, np.nextafter(narrow, np.float32(np.inf)), narrow)
