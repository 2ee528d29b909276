"""Columns of data frames are numbers, or are refused by name."""

from decimal import Decimal

import numpy as np
import pytest

from pymc_flymc.out_of_core.columns import as_column

pandas = pytest.importorskip("pandas")

N = 6
GOOD = {
    "Int64": lambda: pandas.array(range(N), "Int64"),
    "Float64": lambda: pandas.array(np.arange(N) / 2, "Float64"),
    "boolean": lambda: pandas.array(np.arange(N) % 2 > 0, "boolean"),
    "UInt8": lambda: pandas.array(range(N), "UInt8"),
    "float16": lambda: np.arange(N, dtype=np.float16),
    "bool": lambda: np.arange(N) % 2 > 0,
}
BAD = {
    "pd.NA": (lambda: pandas.array([1, None, *range(N - 2)], "Int64"), "'c'.* 1 missing values"),
    "string": (
        lambda: list("abcabc"),
        r"'c' is of dtype .*, not numbers: give the effects of its groups a dimension",
    ),
    "zones": (lambda: pandas.date_range("2020", periods=N, tz="UTC"), "'c' is of .*days since"),
    "dates": (lambda: pandas.date_range("2020", periods=N), "'c' is of dtype datetime.*days since"),
    "Decimal": (lambda: [Decimal(i) for i in range(N)], "'c' is of dtype (object.*astype|string)"),
    "sparse": (lambda: pandas.arrays.SparseArray([0] * N), "'c' is of .*to_dense"),
    "complex": (lambda: np.ones(N, complex), "'c' is of dtype complex"),
}


def kinds_of(frame):
    """The same as frames of pandas and Dask, where that is installed."""
    yield frame
    try:
        import dask.dataframe
    except ImportError:
        return
    yield dask.dataframe.from_pandas(frame, npartitions=2)


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD.keys())
def test_columns_that_are_numbers(make):
    frame = pandas.DataFrame({"c": make(), "d": np.arange(N)})
    for each in kinds_of(frame):
        column = as_column("a", each["c"])
        expected = np.asarray(make())
        np.testing.assert_array_equal(column.read(slice(0, N)), expected.astype(column.dtype))
        assert column.dtype.name == make().dtype.name.lower().replace("boolean", "bool")
        both = as_column("a", each[["d", "c"]]).read(slice(1, N))
        np.testing.assert_array_equal(both[:, 1], expected[1:].astype(both.dtype))
        np.testing.assert_array_equal(both[:, 0], np.arange(1, N))


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD.keys())
def test_columns_that_are_not(make, message):
    frame = pandas.DataFrame({"d": np.arange(N), "c": make()})
    for each in kinds_of(frame):
        for some in (each["c"], each[["d", "c"]]):
            with pytest.raises(ValueError, match=f"data= of 'a': the column {message}"):
                as_column("a", some).read(slice(0, N))


def test_large_integers_beside_floats():
    frame = pandas.DataFrame({"x": np.ones(N), "id": np.full(N, 2**53 + 2)})
    for each in kinds_of(frame):
        with pytest.raises(ValueError, match="'id' holds integers beyond"):
            as_column("a", each).read(slice(0, N))
        assert as_column("a", each["id"]).read(slice(0, N))[0] == 2**53 + 2


@pytest.mark.parametrize("of", ["polars", "pyarrow"])
def test_columns_of_others(of):
    """Series of Polars, chunked arrays of Arrow, and frames of the former."""
    made = pytest.importorskip(of)
    values = np.arange(N) / 2
    if of == "polars":
        frame = made.DataFrame({"a": values, "b": values + 1})
        np.testing.assert_array_equal(as_column("a", frame).read(slice(0, N))[:, 1], values + 1)
        series = frame["a"]
    else:
        series = made.chunked_array([values[:2], values[2:]])
    np.testing.assert_array_equal(as_column("a", series).read(slice(0, N)), values)


def test_strings_and_categories_by_the_labels_of_a_model():
    """The same numbers in all partitions, whatever categories these have."""
    strings = ["b", "c", "a", "a", "c", "b"]
    frame = pandas.DataFrame({"g": strings, "k": pandas.Categorical(strings)})
    labels = {"g": ("c", "a", "b"), "k": ["c", "a", "b"], "other": ["x"]}
    expected = [2, 0, 1, 1, 0, 2]
    for each in kinds_of(frame):
        for name, column in (("g", each["g"]), ("k", each["k"]), ("g", each["g"].rename("h"))):
            found = as_column(name, column, labels).read(slice(0, N))
            np.testing.assert_array_equal(found, expected)
        both = as_column("codes", each[["k", "g"]], labels).read(slice(0, N))
        np.testing.assert_array_equal(both, np.stack([expected] * 2, axis=1))
        with pytest.raises(ValueError, match="'g' holds 'b', which is not one of the 2 groups"):
            as_column("g", each["g"], {"g": ["a", "c"]}).read(slice(0, N))
        with pytest.raises(ValueError, match="labels of 'g' are not all different"):
            as_column("g", each["g"], {"g": ["a", "b", "c", "a"]}).read(slice(0, N))
        with pytest.raises(ValueError, match="'X': numbers of groups stand beside measurements"):
            as_column("X", each[["g"]].assign(x=0.5), labels).read(slice(0, N))
    holes = pandas.DataFrame({"g": ["a", None, "b", "c", "a", "b"]}).astype("string")
    for each in kinds_of(holes):
        with pytest.raises(ValueError, match=r"'g', of dtype .*, has 1 missing"):
            as_column("g", each["g"], labels).read(slice(0, N))


def test_categories_by_their_own_codes():
    frame = pandas.DataFrame({"k": pandas.Categorical(list("bcaacb"), ["c", "b", "a"])})
    for each in kinds_of(frame):
        found = as_column("k", each["k"]).read(slice(0, N))
        np.testing.assert_array_equal(found, frame["k"].cat.codes)
    frames = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="'k' is of dtype category, not numbers: give the effects"):
        as_column("k", frames["k"].cat.as_unknown())


@pytest.mark.parametrize("of", ["polars", "pyarrow"])
def test_strings_of_others(of):
    made = pytest.importorskip(of)
    if of == "polars":
        kinds = [
            made.Series("g", ["b", "a", "b"], dtype) for dtype in (made.String, made.Categorical)
        ]
    else:
        kinds = [made.chunked_array([["b"], ["a", "b"]])]
        kinds.append(kinds[0].dictionary_encode())
    for series in kinds:
        found = as_column("g", series, {"g": ["z", "a", "b"]}).read(slice(0, 3))
        np.testing.assert_array_equal(found, [2, 1, 2])
