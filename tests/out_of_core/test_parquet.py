"""Parquet of many files, written by others: all rows, in their order, columns side by side."""

import numpy as np
import pytest

from pymc_flymc.out_of_core.data_setting import source_of

pandas = pytest.importorskip("pandas")
dask_frame = pytest.importorskip("dask.dataframe")
arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

LENGTHS = [40 + 37 * i % 101 for i in range(30)]
COLUMNS = ["a", "b", "c", "d", "g", "y"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = sum(LENGTHS)
    floats = {name: rng.normal(size=n) for name in "abcd"}
    numbers = {"g": rng.integers(0, 5, n).astype(np.int32), "y": rng.integers(0, 2, n)}
    part = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    return pandas.DataFrame({**floats, **numbers, "name": "text", "part": part})


def written_by_pandas(part, path):
    part.to_parquet(path)


def written_by_arrow(part, path):
    """In small groups of rows, with other pages and another compression."""
    table = arrow.Table.from_pandas(part, preserve_index=False)
    options = dict(row_group_size=17, compression="zstd", data_page_version="2.0")
    parquet.write_table(table, path, use_dictionary=False, **options)


def written_by_polars(part, path):
    polars = pytest.importorskip("polars")
    polars.DataFrame({name: part[name].to_numpy() for name in part}).write_parquet(path)


def written_by_duckdb(part, path):
    duckdb = pytest.importorskip("duckdb")
    duckdb.connect().execute(f"COPY (SELECT * FROM part) TO '{path}' (FORMAT parquet)")


WRITERS = [written_by_pandas, written_by_arrow, written_by_polars, written_by_duckdb]


def assert_all_rows(read, frame):
    """Compare what is read of both, chunk by chunk, with the frame."""
    X = ["a", "c", "b"]
    data = {"X": read[X], "g": read["g"], "y": read["y"]}
    source = source_of(data)
    assert source.n_rows == len(frame)
    found = [p.read(each) for p in source.partitions for each in p.chunks()]
    for name, columns in (("X", X), ("g", "g"), ("y", "y")):
        values = np.concatenate([each[name] for each in found])
        np.testing.assert_array_equal(values, frame[columns].to_numpy())


@pytest.mark.parametrize("write", WRITERS)
def test_many_files_of_unequal_lengths(write, frame, tmp_path):
    """Of which some have their columns in another order."""
    for i, (_, part) in enumerate(frame.groupby("part")):
        columns = [*COLUMNS, "name"][:: -1 if i % 3 else 1]
        write(part[columns].reset_index(drop=True), tmp_path / f"{i:03d}.parquet")
    assert_all_rows(dask_frame.read_parquet(str(tmp_path / "*.parquet")), frame)


def test_a_folder_as_spark_writes_it(frame, tmp_path):
    """Hive partitions, common metadata, and files that hold no rows."""
    collected = []
    table = arrow.Table.from_pandas(frame, preserve_index=False)
    # One for each value, whose names are in the order of the values.
    table = table.set_column(
        table.column_names.index("part"),
        "part",
        arrow.array([f"{i:03d}" for i in frame["part"]]),
    )
    parquet.write_to_dataset(
        table, str(tmp_path), partition_cols=["part"], metadata_collector=collected
    )
    schema = table.drop_columns(["part"]).schema
    parquet.write_metadata(schema, tmp_path / "_metadata", metadata_collector=collected)
    parquet.write_metadata(schema, tmp_path / "_common_metadata")
    (tmp_path / "_SUCCESS").touch()
    assert_all_rows(dask_frame.read_parquet(str(tmp_path)), frame)


def test_strings_of_files_are_refused(frame, tmp_path):
    frame.to_parquet(tmp_path / "0.parquet")
    read = dask_frame.read_parquet(str(tmp_path / "0.parquet"))
    with pytest.raises(ValueError, match="data= of 'X': the column 'name' is of dtype"):
        source_of({"X": read[["a", "name"]]})
