"""Mutants of rows that are taken out of terms, or joined: as they are read, and as compared."""

from tests.mutants.mutant import Rows

READ = "tests/reading/test_taken_rows.py"
COMPARED = "tests/agreement/test_rows_of_graph.py"
MUTANTS: Rows = {
    "reading/taken_rows.py": [
        (
            "rows of other parts not zero",
            "mask = own.astype(np.float64)",
            "mask = np.ones(len(own))",
            f"{READ}::test_rows_are_those_of_the_data[blocks]",
        ),
        (
            "a row too few of each part",
            "own = (rows >= start) & (rows < start + length)",
            "own = (rows > start) & (rows < start + length)",
            f"{READ}::test_rows_are_those_of_the_data[blocks]",
        ),
        (
            "numbers of all rows for those of a part",
            "rows[own.argmax()]) - start",
            "rows[own.argmax()]) - start * 0",
            f"{READ}::test_rows_are_those_of_the_data[rows of blocks]",
        ),
        (
            "rows of joined terms from the end taken for others",
            "start, found, rows = 0, [], rows % joined.shape[along]",
            "start, found = 0, []",
            f"{READ}::test_rows_are_those_of_the_data[rows of blocks, from the end]",
        ),
        (
            "the first rows of a slice",
            "numbers = np.arange(length)[numbers_of(index[axis])]",
            "numbers = np.arange(len(np.arange(length)[numbers_of(index[axis])]))",
            f"{READ}::test_rows_are_those_of_the_data[backwards]",
        ),
        (
            "rows of a slice of all",
            "np.arange(lengths[kept[k]])[index[kept[k]]][places[k]]",
            "np.arange(lengths[kept[k]])[places[k]]",
            f"{READ}::test_rows_are_those_of_the_data[slice of a slice]",
        ),
        (
            "groups of the first rows",
            "return indexed(source, {k: each[places[axis]] for k, each in own.items()}, moves_on)",
            "n = len(places[axis])\n"
            "    return indexed(source, {k: each[:n] for k, each in own.items()}, moves_on)",
            f"{READ}::test_rows_are_those_of_the_data[of a lookup]",
        ),
        (
            "all columns of a product for one of each row",
            "(indexed(left, {0: rows}) * indexed(right, {1: columns})).sum(axis=1)",
            "(indexed(left, {0: rows}) * indexed(right, {1: columns[::-1]})).sum(axis=1)",
            f"{READ}::test_rows_are_those_of_the_data[an element of each row]",
        ),
        (
            "a sum over another axis",
            "sum(axis=[1 + behind.index(k) for k in gone])",
            "sum(axis=[behind.index(k) for k in gone])",
            f"{READ}::test_rows_are_those_of_the_data[mask]",
        ),
    ],
    "reading/cotangent.py": [
        (
            "a mask taken for numbers",
            "numbers = np.flatnonzero(numbers)",
            "numbers = numbers.astype(int)",
            f"{READ}::test_rows_are_those_of_the_data[mask]",
        ),
        (
            "rows that are taken twice are distinct",
            "max(initial=0)) <= 1",
            "max(initial=0)) <= 9",
            f"{READ}::test_effects_that_are_functions_of_data_stay_effects",
        ),
        (
            "places from the end are not those from the start",
            "numbers = [each % n for each, n in zip(places.values(), lengths, strict=True)]",
            "numbers = list(places.values())",
            f"{READ}::test_rows_are_those_of_the_data[numbers from the end]",
        ),
        (
            "what is the same at all places is indexed",
            "long = {k: each for k, each in places.items() if varies(var, k)}",
            "long = dict(places)",
            f"{READ}::test_rows_are_those_of_the_data[of a quotient]",
        ),
        (
            "the axis of an index in front",
            "return first if last - first == len(places) - 1 else 0",
            "return 0",
            f"{READ}::test_rows_are_those_of_the_data[of one row]",
        ),
    ],
    "agreement/compared.py": [
        (
            "a guess for what is evaluated with all rows",
            "if not whole and self._few is not None:",
            "if self._few is not None:",
            COMPARED,
        ),
        (
            "the first rows for those chosen",
            "value[rows] if",
            "value if",
            COMPARED,
        ),
        (
            "numbers of all rows in an index of a few",
            "data = np.arange(len(data), dtype=data.dtype)",
            "pass",
            COMPARED,
        ),
    ],
}
