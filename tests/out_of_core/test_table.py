"""One table, whose columns fill the containers of their names."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH, UnsupportedModelError
from pymc_flymc.out_of_core.data_setting import of_table, source_of

pandas = pytest.importorskip("pandas")

N = 600
rng = np.random.default_rng(0)
TABLE = pandas.DataFrame(rng.normal(size=(N, 3)).round(2), columns=["b", "a", "unused"])
TABLE["group"], TABLE["y"] = np.arange(N) % 3, rng.integers(0, 2, N).astype(np.int8)


def model(head=40):
    with pm.Model(coords={"column": ["a", "b"]}) as made:
        X = pm.Data("X", TABLE[["a", "b"]].to_numpy()[:head], dims=("row", "column"))
        group = pm.Data("group", TABLE["group"].to_numpy()[:head])
        pm.Data("of_no_row", np.ones(2))
        beta, effects = pm.Normal("beta", shape=2), pm.Normal("effects", shape=3)
        y = pm.Data("y", TABLE["y"].to_numpy()[:head])
        pm.Bernoulli("o", logit_p=X @ beta + effects[group], observed=y)
    return made


def polars():
    return pytest.importorskip("polars").from_pandas(TABLE)


def dask():
    return pytest.importorskip("dask.dataframe").from_pandas(TABLE, npartitions=3)


def parquet(folder):
    pytest.importorskip("dask.dataframe")
    for i, part in enumerate((TABLE[:100], TABLE[100:])):
        part.to_parquet(folder / f"{i}.parquet")
    return folder


@pytest.mark.parametrize("kind", ["pandas", "polars", "dask", "parquet"])
def test_columns_by_the_names_of_containers(kind, tmp_path):
    table = {"pandas": lambda: TABLE, "polars": polars, "dask": dask}
    given = parquet(tmp_path) if kind == "parquet" else table[kind]()
    source = source_of(of_table(given, model()))
    assert source.names == ("X", "group", "y") and source.n_rows == N
    found = [partition.read(slice(None)) for partition in source.partitions]
    for name, columns in (("X", ["a", "b"]), ("group", "group"), ("y", "y")):
        rows = np.concatenate([each[name] for each in found])
        np.testing.assert_array_equal(rows, TABLE[columns].to_numpy())


def test_a_step_on_a_table():
    with model():
        step = FireflyMH(data=TABLE)
    assert step.target.source.n_rows == N


def test_a_table_without_a_column_for_any_container():
    with model(), pytest.raises(ValueError, match="columns, 'unused', is the name of a data"):
        FireflyMH(data=TABLE[["unused"]])


@pytest.mark.parametrize("column", ["group", "a", "y"])
def test_a_column_that_is_missing(column):
    """The container would keep the first rows."""
    with model(), pytest.raises(UnsupportedModelError, match="data="):
        FireflyMH(data=TABLE.drop(columns=[column]))
