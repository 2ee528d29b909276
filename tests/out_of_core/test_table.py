"""One table, whose columns fill the containers of their names."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH, UnsupportedModelError
from pymc_flymc.out_of_core.data_setting import check_head, of_table, source_of
from pymc_flymc.out_of_core.frames import labels_of

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
        source = source_of(of_table(data, model), labels=labels_of(model))
    np.testing.assert_array_equal(source.partitions[0].read(slice(None))["group"], TABLE["group"])


def test_the_model_numbers_groups_as_categories_do():
    """Not in the order in which they come, unless the model says so."""
    categories = NAMES.astype({"group": "category"})
    codes = categories["group"].cat.codes.to_numpy()
    with of_groups(codes[:40]) as model:
        source = source_of(of_table(categories, model), labels=labels_of(model))
    np.testing.assert_array_equal(source.partitions[0].read(slice(None))["group"], codes)
    with (
        of_groups(TABLE["group"].to_numpy()[:40]),
        pytest.raises(ValueError, match="'group': row 0 is 1, and 0 in the model's container"),
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
        source = source_of({"G": kept}, labels=labels_of(made))
        if good:
            check_head(source, made)
            continue
        with pytest.raises(ValueError, match=r"'G': row \d is "):
            check_head(source, made)


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


PERMUTED = [2, 0, 1]


def of_ids(places, effects=lambda r, g: r[g]):
    with pm.Model(coords={"lev": PERMUTED}) as made:
        g = pm.Data("group", places)
        y = pm.Data("y", TABLE["y"].to_numpy()[: len(places)])
        pm.Bernoulli("o", logit_p=effects(pm.Normal("r", dims="lev"), g), observed=y)
    return made


def column_of(table):
    return {"group": table["group"], "y": table["y"]}


@pytest.mark.parametrize("kind", ["pandas", "polars", "dask", "parquet", "columns"])
def test_integer_ids_are_read_by_the_coordinates_of_the_effects(kind, tmp_path):
    """Which are others than the numbers from 0."""
    places = np.argsort(PERMUTED)[TABLE["group"]]
    table = {"pandas": lambda: TABLE, "polars": polars, "dask": dask}
    table["columns"] = lambda: column_of(TABLE)
    given = parquet(tmp_path) if kind == "parquet" else table[kind]()
    with of_ids(places[:40]) as model:
        source = source_of(of_table(given, model), labels=labels_of(model))
        check_head(source, model)
    found = np.concatenate([each.read(slice(None))["group"] for each in source.partitions])
    np.testing.assert_array_equal(found, places)


@pytest.mark.parametrize(
    "effects",
    [
        lambda r, g: r[g.astype("int64")],
        lambda r, g: (1.0 + 2.0 * r)[g],
        lambda r, g: pm.Deterministic("d", r - r[0], dims="lev")[g],
        lambda r, g: r.dimshuffle("x", 0)[0, g],
        lambda r, g: (r[:, None] * np.ones(2))[g, 0],
    ],
)
def test_effects_whose_coordinates_are_found(effects):
    assert labels_of(of_ids(np.zeros(9, int), effects)).indexed == {("group", None): PERMUTED}


def test_columns_of_a_container_that_index_effects():
    both = TABLE.assign(other=(TABLE["group"] + 1) % 3)[["group", "other"]]
    places = np.argsort(PERMUTED)[both["group"]]
    with pm.Model(coords={"lev": PERMUTED, "plain": ["x", "y", "z"]}) as made:
        G = pm.Data("G", np.column_stack([places, both["other"]])[:40])
        r, s = pm.Normal("r", dims="lev"), pm.Normal("s", shape=3)
        pm.Normal("o", r[G[:, -2]] + s[G[:, 1]], observed=pm.Data("y", np.zeros(40)))
    source = source_of({"G": both}, labels=labels_of(made))
    check_head(source, made)
    found = source.partitions[0].read(slice(None))["G"]
    np.testing.assert_array_equal(found, np.column_stack([places, both["other"]]))


def test_a_container_that_indexes_effects_of_different_coordinates():
    with pm.Model(coords={"a": [0, 1, 2], "b": PERMUTED}) as made:
        g = pm.Data("g", TABLE["group"].to_numpy()[:40])
        eta = pm.Normal("r", dims="a")[g] + pm.Normal("s", dims="b")[g]
        pm.Normal("o", eta, observed=pm.Data("y", np.zeros(40)))
    with pytest.raises(ValueError, match="'g' indexes effects of the dim"):
        source_of({"g": TABLE["group"]}, labels=labels_of(made))


ROWS = {"X": TABLE[["a", "b"]].to_numpy(), "group": TABLE["group"], "y": TABLE["y"].to_numpy()}
OTHERS = {
    "columns": {"X": TABLE[["b", "a"]].to_numpy()},
    "order": {"y": TABLE["y"].to_numpy()[::-1]},
    "ids": {"group": np.argsort(PERMUTED)[TABLE["group"]]},
    "float32 ids": {"group": (TABLE["group"] + 1e-6).astype("f4")},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_a_model_that_is_not_written_on_the_first_rows(change):
    (name,) = change
    with model(), pytest.raises(ValueError, match=rf"data= of '{name}': row \d+ is .*first rows"):
        FireflyMH(data=ROWS | change)


def test_rounding_makes_no_other_rows():
    check_head(source_of({"X": ROWS["X"].astype("f4")}), model())
    check_head(source_of({"X": ROWS["X"] * (1 + 1e-12)}), model())
    with pytest.raises(ValueError, match="'X' has 30 rows, and the model's container 40"):
        check_head(source_of({"X": ROWS["X"][:30]}), model())


def test_two_columns_of_the_same_name():
    twice = pandas.concat([TABLE, TABLE[["b"]].rename(columns={"b": "group"})], axis=1)
    with model(), pytest.raises(ValueError, match="'group': two of the columns"):
        FireflyMH(data=twice)


def test_a_lazy_frame():
    with model(), pytest.raises(ValueError, match=r"data= is a lazy frame.*frame\.collect\(\)"):
        FireflyMH(data=polars().lazy())
