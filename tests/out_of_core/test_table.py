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


def arrow(folder):
    """A data set whose files have their columns in another order, and a column by folders."""
    made, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    datasets = pytest.importorskip("pyarrow.dataset")
    for i in range(3):
        part = TABLE[TABLE["group"] == i].drop(columns="group")
        table = made.Table.from_pandas(part[list(part.columns[:: -1 if i else 1])])
        (folder / f"group={i}").mkdir()
        parquet.write_table(table, folder / f"group={i}" / "rows.parquet")
    return datasets.dataset(folder, partitioning="hive")


def test_a_data_set_of_arrow(tmp_path):
    dataset = arrow(tmp_path)
    source = source_of(of_table(dataset, model()))
    found = [partition.read(slice(None)) for partition in source.partitions]
    expected = TABLE.sort_values("group", kind="stable")
    for name, columns in (("X", ["a", "b"]), ("group", "group"), ("y", "y")):
        rows = np.concatenate([each[name] for each in found])
        np.testing.assert_array_equal(rows, expected[columns].to_numpy())
    before = source.identity()
    (tmp_path / "group=1" / "rows.parquet").write_bytes(b"")
    assert source.identity() != before


def test_a_table_of_arrow():
    made = pytest.importorskip("pyarrow")
    source = source_of(of_table(made.Table.from_pandas(TABLE), model()))
    np.testing.assert_array_equal(source.partitions[0].read(slice(None))["group"], TABLE["group"])


def of_groups(codes, names=None):
    with pm.Model(coords=None if names is None else {"answer": names}) as made:
        group = pm.Data("group", codes)
        effects = pm.Normal("effects", **({"shape": 3} if names is None else {"dims": "answer"}))
        y = pm.Data("y", TABLE["y"].to_numpy()[: len(codes)])
        pm.Bernoulli("o", logit_p=effects[group], observed=y)
    return made


NAMES = TABLE.assign(group=np.array(["no", "yes", "maybe"])[TABLE["group"]])


@pytest.mark.parametrize("kind", ["strings", "categories", "by another name"])
def test_groups_by_the_coordinate_of_the_effects_that_they_index(kind):
    data = NAMES.astype({"group": "category"}) if kind == "categories" else NAMES
    if kind == "by another name":
        data = {"group": NAMES["group"].rename("answer"), "y": NAMES["y"]}
    with of_groups(TABLE["group"].to_numpy()[:40], ["no", "yes", "maybe"]) as model:
        source = source_of(of_table(data, model), model=model)
    np.testing.assert_array_equal(source.partitions[0].read(slice(None))["group"], TABLE["group"])


def test_the_model_numbers_groups_as_categories_do():
    """Not in the order in which they come, unless the model says so."""
    categories = NAMES.astype({"group": "category"})
    codes = categories["group"].cat.codes.to_numpy()
    with of_groups(codes[:40]) as model:
        source = source_of(of_table(categories, model), model=model)
    np.testing.assert_array_equal(source.partitions[0].read(slice(None))["group"], codes)
    with (
        of_groups(TABLE["group"].to_numpy()[:40]),
        pytest.raises(ValueError, match="'group' are categories, and the first of their codes"),
    ):
        FireflyMH(data=categories)
    with of_groups(codes[:40]), pytest.raises(ValueError, match="give the effects of its groups"):
        FireflyMH(data=NAMES)


def arrow_column(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)["group"]


@pytest.mark.parametrize("given", [lambda frame: frame[["group", "group2"]], arrow_column])
def test_codes_of_several_columns_and_of_arrow_are_compared_too(given):
    """Two columns of categories, which the model numbers in the order in which they come."""
    frame = NAMES.assign(group2=NAMES["group"]).astype("category")
    kept, several = given(frame), given is not arrow_column
    codes = [pandas.factorize(NAMES["group"])[0], frame["group"].cat.codes.to_numpy()]
    if not several:  # Arrow has them in an order of its own
        codes = [2 - codes[1], codes[1]]
    for own, good in zip(codes, (False, True), strict=True):
        with pm.Model() as made:
            pm.Data("G", np.column_stack([own, own])[:40] if several else own[:40])
        if good:
            source_of({"G": kept}, model=made)
            continue
        with pytest.raises(ValueError, match="'G' are categories, and the first of their codes"):
            source_of({"G": kept}, model=made)


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
