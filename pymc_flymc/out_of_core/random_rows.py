"""A random sample of all rows, wherever they are."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from pymc.model.core import Model, modelcontext

from pymc_flymc.out_of_core.data_setting import of_table, source_of
from pymc_flymc.out_of_core.source import Partition, Values
from pymc_flymc.reporting import reporting
from pymc_flymc.settings import check, is_number


def random_rows(
    data: Mapping[str, Any] | Any,
    n: int,
    *,
    random_seed: Any = None,
    client: Any = None,
    model: Model | None = None,
) -> tuple[np.ndarray, Values]:
    """Return some of all rows, drawn without replacement, for the data containers of a model.

    With ``pm.set_data`` they take the place of the rows that the model was written on, so that
    ``pm.sample_posterior_predictive`` and ``pm.compute_log_likelihood`` are about a random sample
    of all rows.

    Parameters
    ----------
    data, client, model
        As of `FireflyMH`.
    n : int
        Number of rows; all, if there are fewer.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    numbers : ndarray of int, shape (n,)
        Which rows they are, sorted, counted from zero.
    rows : dict
        From names of containers to these rows.

    See Also
    --------
    summarize_rows : means and standard deviations for all rows.

    Examples
    --------
    >>> numbers, rows = random_rows({"X": X, "y": y}, 1_000, random_seed=1)
    >>> with model:
    ...     pm.set_data(rows)
    ...     pm.sample_posterior_predictive(idata, extend_inferencedata=True)
    """
    check(is_number(n) and n >= 1 and n == int(n), "n", "a number of rows, 1 or more", n)
    model = modelcontext(model)
    with reporting("random_rows"):
        source = source_of(of_table(data, model), client, model)
        rng = np.random.default_rng(random_seed)
        numbers = np.sort(rng.choice(source.n_rows, min(int(n), source.n_rows), replace=False))
        parts = list(source.map(partial(_some_of, numbers)))
    return numbers, {name: np.concatenate([part[name] for part in parts]) for name in source.names}


def _some_of(numbers: np.ndarray, partition: Partition) -> Values:
    """Return the rows of a partition that are among some numbers of all rows."""
    first, stop = np.searchsorted(numbers, [partition.first, partition.first + partition.n_rows])
    return partition.read(numbers[first:stop] - partition.first)
