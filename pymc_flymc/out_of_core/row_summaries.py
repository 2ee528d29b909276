"""Random rows, and posterior summaries of a function of each row, in one pass."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import xarray as xr
from pymc.model.core import Model, modelcontext
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError, check, is_number
from pymc_flymc.out_of_core.data_setting import of_table, source_of
from pymc_flymc.out_of_core.design_builder import cast_rows
from pymc_flymc.out_of_core.frames import labels_of
from pymc_flymc.out_of_core.source import Partition, Values
from pymc_flymc.out_of_core.stored_model import containers_of
from pymc_flymc.reading.rows_alone import check_rows_alone
from pymc_flymc.reporting import reporting
from pymc_flymc.sampling.diagnostics import evenly


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
        labels = labels_of(model, own_codes=False)
        source = source_of(of_table(data, model), client, labels)
        rng = np.random.default_rng(random_seed)
        numbers = np.sort(rng.choice(source.n_rows, min(int(n), source.n_rows), replace=False))
        parts = list(source.map(partial(_some_of, numbers)))
    return numbers, {name: np.concatenate([part[name] for part in parts]) for name in source.names}


def _some_of(numbers: np.ndarray, partition: Partition) -> Values:
    """Return the rows of a partition that are among some numbers of all rows."""
    first, stop = np.searchsorted(numbers, [partition.first, partition.first + partition.n_rows])
    return partition.read(numbers[first:stop] - partition.first)


#: Rows that are evaluated at a time, for all draws: they stay in the processor's caches.
BLOCK = 1 << 14


def summarize_rows(
    idata: Any,
    expressions: Mapping[str, TensorVariable],
    *,
    data: Mapping[str, Any] | Any,
    draws: int = 100,
    to: str | os.PathLike[str] | None = None,
    client: Any = None,
    model: Model | None = None,
) -> xr.Dataset | Path:
    """Return posterior means and standard deviations of numbers that a model has for each row.

    They may be predictions, or the log-likelihood of each row. All rows of `data` are read once. No
    array with a number for each row *and* draw is ever made.

    Parameters
    ----------
    idata : DataTree
        What ``pm.sample`` has returned.
    expressions : mapping
        From names to what is summarized: one number for each row, computed from the model's
        variables and data containers, such as ``pm.math.sigmoid(X @ beta)`` or
        ``pm.logp(model["y"], y_data)``.
    data, client, model
        As of `FireflyMH`. Rows in memory will do as well.
    draws : int
        Number of draws that are used, at equal distances.
    to : path, optional
        A new folder for Parquet files, one for each partition of the rows. The process that reads
        the rows writes them: on a cluster, its workers.

    Returns
    -------
    Dataset or Path
        Variables ``<name>_mean`` and ``<name>_sd`` along the dimension ``row``, which counts all
        rows from zero; with `to` the folder, whose files have these columns and ``row``.

    Raises
    ------
    UnsupportedModelError
        If an expression is not a function of each row alone, or is drawn at random.
    ValueError
        If settings are invalid, or rows, or if an expression needs a variable without draws.

    See Also
    --------
    random_rows : a random sample of the rows, for PyMC's own functions.

    Examples
    --------
    >>> with model:
    ...     chance = pm.math.sigmoid(model["X"] @ model["beta"])
    ...     fitted = summarize_rows(idata, {"chance": chance}, data={"X": X, "y": y})
    """
    check(is_number(draws) and draws >= 1, "draws", "a number of draws, 1 or more", draws)
    for name, graph in expressions.items():
        if not isinstance(graph, TensorVariable) or graph.ndim != 1:
            raise UnsupportedModelError(
                f"the expression {name!r} is no vector of one number for each row of data=: "
                "give several columns one by one, as p[:, 0]"
            )
    model = modelcontext(model)
    with reporting("summarize_rows"):
        labels = labels_of(model, expressions.values(), own_codes=False)
        source = source_of(of_table(data, model), client, labels)
        containers = containers_of(model, source)
        work = RowSummary.of(model, expressions, containers, _some_draws(idata, int(draws)))
        if to is None:
            parts = list(source.map(work))
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            return xr.Dataset({name: ("row", column) for name, column in columns.items()})
        folder = Path(os.path.abspath(to))
        good = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        check(good, "to", "a folder that is new or empty", str(to))
        folder.mkdir(parents=True, exist_ok=True)
        for _ in source.map(partial(_write, work, folder)):
            pass
        return folder


def _some_draws(idata: Any, n: int) -> dict[str, np.ndarray]:
    """Return draws of each variable, at equal distances through all chains."""
    found = {}
    for name, values in idata["posterior"].data_vars.items():
        of_all = values.transpose("chain", "draw", ...).to_numpy()
        of_all = of_all.reshape(-1, *of_all.shape[2:])
        found[str(name)] = of_all[evenly(len(of_all), n)]
    return found


@dataclass(eq=False)
class RowSummary:
    """Evaluates and summarizes expressions for a partition's rows; it is sent to the rows.

    Attributes
    ----------
    names : tuple of str
        Of the expressions.
    containers : mapping
        By name, the inputs that stand for rows.
    inputs : list of TensorVariable
        Those that stand for a draw.
    outputs : list of TensorVariable
    draws : list of tuple of ndarray
        Values of `inputs`.
    """

    names: tuple[str, ...]
    containers: Mapping[str, TensorVariable]
    inputs: list[TensorVariable]
    outputs: list[TensorVariable]
    draws: list[tuple[np.ndarray, ...]]
    _own: threading.local = field(default_factory=threading.local, repr=False)

    @classmethod
    def of(
        cls,
        model: Model,
        expressions: Mapping[str, TensorVariable],
        containers: Mapping[str, Any],
        draws: Mapping[str, np.ndarray],
    ) -> RowSummary:
        """Make a model's variables and its containers the inputs of expressions.

        Raises
        ------
        UnsupportedModelError
            If an expression is not a function of each row alone.
        ValueError
            If it needs a variable without draws.
        """
        for name, graph in expressions.items():
            check_rows_alone([graph], [], containers, name)
        above = set(ancestors(list(expressions.values())))
        used: list[Any] = [v for v in model.free_RVs if v in above]
        stand_ins: dict[Any, Any] = {v: v.type(str(v.name)) for v in used}
        rows = {name: v.type(name) for name, v in containers.items() if v in above}
        stand_ins |= {containers[name]: v for name, v in rows.items()}
        outputs: Any = graph_replace(list(expressions.values()), stand_ins, strict=False)
        if any(isinstance(v.type, RandomType) for v in ancestors(outputs)):
            raise UnsupportedModelError(
                f"an expression of {', '.join(map(repr, expressions))} is drawn at random: give "
                "what is expected of it, or draw it for some rows of data=, by random_rows and "
                "pm.sample_posterior_predictive"
            )
        missing = [str(v.name) for v in used if v.name not in draws]
        if missing:
            raise ValueError(
                f"the posterior has no draws of {', '.join(missing)}: give draws of this model, "
                "with all variables of the expressions"
            )
        arrays = [draws[str(v.name)].astype(v.type.dtype) for v in used]
        values: list[tuple[np.ndarray, ...]] = list(zip(*arrays, strict=True)) or [()]
        return cls(tuple(expressions), rows, [stand_ins[v] for v in used], outputs, values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle graphs only: other processes compile them again."""
        return RowSummary, (self.names, self.containers, self.inputs, self.outputs, self.draws)

    def __call__(self, partition: Partition) -> Values:
        """Return means and standard deviations for each row of a partition."""
        found = {
            f"{name}_{what}": np.empty(partition.n_rows)
            for name in self.names
            for what in ("mean", "sd")
        }
        for chunk in partition.chunks():
            values = partition.read(chunk)
            for first in range(0, chunk.stop - chunk.start, BLOCK):
                block = slice(first, min(first + BLOCK, chunk.stop - chunk.start))
                place = slice(chunk.start + block.start, chunk.start + block.stop)
                for name, (mean, sd) in zip(self.names, self._moments(values, block), strict=True):
                    found[f"{name}_mean"][place], found[f"{name}_sd"][place] = mean, sd
        return found

    def _moments(self, values: Values, block: slice) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return mean and standard deviation over draws of each expression, of some rows."""
        rows = [
            cast_rows(values[name][block], np.dtype(v.type.dtype), name)
            for name, v in self.containers.items()
        ]
        means, squares = (np.zeros((len(self.names), block.stop - block.start)) for _ in range(2))
        for i, draw in enumerate(self.draws):
            for k, value in enumerate(self._function()(*rows, *draw)):
                change = value - means[k]
                means[k] += change / (i + 1)
                squares[k] += change * (value - means[k])
        n = max(1, len(self.draws) - 1)
        return list(zip(means, np.sqrt(squares / n), strict=True))

    def _function(self) -> Any:
        """Return the compiled expressions: each thread has a function of its own."""
        if not hasattr(self._own, "function"):
            arguments = [*self.containers.values(), *self.inputs]
            self._own.function = pytensor.function(arguments, self.outputs)
        return self._own.function


def _write(work: RowSummary, folder: Path, partition: Partition) -> None:
    """Write the summary of a partition, under another name until it is complete."""
    from pyarrow import parquet, table

    rows = np.arange(partition.first, partition.first + partition.n_rows)
    place = folder / f"part-{partition.number:06d}.parquet"
    unfinished = place.with_suffix(f".{os.getpid()}.tmp")
    parquet.write_table(table({"row": rows, **work(partition)}), unfinished)
    os.replace(unfinished, place)
