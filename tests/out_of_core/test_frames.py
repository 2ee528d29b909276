"""Columns of data frames are numbers, or are refused by name."""

from decimal import Decimal

import numpy as np
import pytest

from pymc_flymc.out_of_core.columns import as_column
from pymc_flymc.out_of_core.frames import Labels

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
    "pd.NA": (lambda: pandas.array([1, None, *range(N - 2)], "Int64"), "'c'.* 1 missing value"),
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


def named(**coords):
    return Labels(coords=coords)


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
    labels = named(g=("c", "a", "b"), k=["c", "a", "b"], other=["x"])
    expected = [2, 0, 1, 1, 0, 2]
    for each in kinds_of(frame):
        for name, column in (("g", each["g"]), ("k", each["k"]), ("g", each["g"].rename("h"))):
            found = as_column(name, column, labels).read(slice(0, N))
            np.testing.assert_array_equal(found, expected)
        both = as_column("codes", each[["k", "g"]], labels).read(slice(0, N))
        np.testing.assert_array_equal(both, np.stack([expected] * 2, axis=1))
        with pytest.raises(ValueError, match="'g' holds 'b', which is not one of the 2 groups"):
            as_column("g", each["g"], named(g=["a", "c"])).read(slice(0, N))
        with pytest.raises(ValueError, match="labels of 'g' are not all different"):
            as_column("g", each["g"], named(g=["a", "b", "c", "a"])).read(slice(0, N))
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
        found = as_column("g", series, named(g=["z", "a", "b"])).read(slice(0, 3))
        np.testing.assert_array_equal(found, [2, 1, 2])


def by_index(labels):
    return Labels(indexed={("g", None): labels})


IDS = {
    "int8": ([2, 0, 1], np.int8),
    "uint64": ([2**64 - 1, 0, 2**63], np.uint64),
    "Int64": ([2**53 + 1, 2**53, 0], "Int64"),
    "negative": ([-1, 1, 0], np.int32),
    "bool": ([True, False], bool),
    "boolean": ([True, False], "boolean"),
    "whole floats": ([2, 0, 1], np.float64),
    "floats": ([0.5, 0.25], np.float32),
    "integer categories": ([2, 0, 1], "category"),
    "objects": ([2, "a", (1, 2)], object),
    "strings of digits": (["2", "0", "1"], "str"),
    "dates": (list(pandas.date_range("2020", periods=2)), "category"),
}


@pytest.mark.parametrize(("labels", "dtype"), IDS.values(), ids=IDS.keys())
def test_ids_of_any_type_are_read_by_the_coordinates_that_they_index(labels, dtype):
    """Not as places, which integers would do for silently."""
    places = np.array([1, 0, 0, len(labels) - 1, 1])
    values = np.empty(len(places), object)
    values[:] = [labels[i] for i in places]
    frame = pandas.DataFrame({"c": pandas.Series(values).astype(dtype)})
    if dtype == "category":
        frame["c"] = frame["c"].cat.set_categories(labels[::-1])
    for each in kinds_of(frame) if dtype is not object else [frame]:
        found = as_column("g", each["c"], by_index(labels)).read(slice(0, None))
        np.testing.assert_array_equal(found, places)


ABSENT = {
    "absent": ([2, 0, 1], [2, 3, 0], "the column 'c' holds 3, which is not one of the 3 groups"),
    "places": (["b", "a"], [0, 1, 0], "holds 0, which is not one .*coordinates; give their places"),
    "rounded": ([2**53, 0], [0, 2**53 + 1], "holds 9007199254740993, which is not one"),
    "digits": (["1", "0"], [1, 0], r"holds \d, which is not one of the 2 groups"),
    "half": ([0, 1], [0.0, 0.5], "holds 0.5, which is not one of the 2 groups"),
    "NaN": ([0, 1], [0.0, np.nan], "the column 'c', of dtype float64, has 1 missing value"),
    "NA": ([0, 1], pandas.array([0, None], "Int64"), "'c', of dtype Int64, has 1 missing value"),
    "twice": ([0, 1, True], [0, 1], "the labels of 'c' are not all different"),
    "dates": ([1, 0], pandas.date_range("2020", periods=2), "'c' is of dtype datetime"),
}


@pytest.mark.parametrize(("labels", "values", "message"), ABSENT.values(), ids=ABSENT.keys())
def test_ids_that_are_no_coordinates(labels, values, message):
    frame = pandas.DataFrame({"c": values})
    for each in kinds_of(frame):
        with pytest.raises(ValueError, match=f"data= of 'g': .*{message}"):
            as_column("g", each["c"], by_index(labels)).read(slice(0, None))


@pytest.mark.parametrize("of", ["polars", "pyarrow"])
def test_integer_ids_of_others(of):
    made = pytest.importorskip(of)
    if of == "polars":
        series = made.Series("c", [5, 7, 5])
    else:
        series = made.chunked_array([[5], [7, 5]])
    found = as_column("g", series, by_index([7, 5])).read(slice(0, 3))
    np.testing.assert_array_equal(found, [1, 0, 1])


def test_arrays_hold_places():
    for places in (np.array([1, 0]), [1, 0], pandas.Index([1, 0])):
        found = as_column("g", places, by_index([2, 0])).read(slice(0, 2))
        np.testing.assert_array_equal(found, [1, 0])
