"""Mutants of rows that are taken out of terms, or joined: as they are read, and as compared."""

from tests.mutants.mutant import Rows

READ = "tests/reading/test_taken_rows.py"
COMPARED = "tests/agreement/test_rows_of_graph.py"
MUTANTS: Rows = {
    "reading/one_row.py": [
        (
            "rows of other parts not zero",
            "mask = own.astype(np.float64)",
            "mask = np.ones(len(own))",
            f"{READ}::test_rows_are_those_of_the_data[blocks]",
        ),
        (
            "a row too few of each part",
            "own = (at >= start) & (at < stop)",
            "own = (at > start) & (at < stop)",
            f"{READ}::test_rows_are_those_of_the_data[blocks]",
        ),
        (
            "numbers of all rows for those of a part",
            "numbers = np.where(own, at, at[own.argmax()]) - start",
            "numbers = np.where(own, at, at[own.argmax()]) % (stop - start)",
            f"{READ}::test_rows_are_those_of_the_data[rows of blocks]",
        ),
        (
            "the first rows of a slice",
            "numbers = np.arange(length)[numbers_of(index[axis])]",
            "numbers = np.arange(len(np.arange(length)[numbers_of(index[axis])]))",
            f"{READ}::test_rows_are_those_of_the_data[backwards]",
        ),
        (
            "rows of a slice of all",
            "return numbers if at is None else numbers[at]",
            "return numbers if at is None else at",
            f"{READ}::test_rows_are_those_of_the_data[slice of a slice]",
        ),
        (
            "groups of the first rows",
            "return front[positions] if positions else front",
            "return front[: len(positions[0])] if positions else front",
            f"{READ}::test_rows_are_those_of_the_data[of a lookup]",
        ),
        (
            "all columns of a product for one of each row",
            "of_right = {k: at for k, at in places.items() if k != n - 2}",
            "of_right = {k: at[::-1] for k, at in places.items() if k != n - 2 and at is not None}",
            f"{READ}::test_rows_are_those_of_the_data[an element of each row]",
        ),
        (
            "a sum over another axis",
            "return row.sum(axis=gone)",
            "return row.sum(axis=[k - 1 for k in gone])",
            f"{READ}::test_rows_are_those_of_the_data[mask]",
        ),
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
            "np.broadcast_to(numbers, positions.shape[first]) % source.type.shape[k]",
            "np.broadcast_to(numbers, positions.shape[first])",
            f"{READ}::test_rows_are_those_of_the_data[rows of blocks, from the end]",
        ),
        (
            "the axis of an index in front",
            "first = 0 if apart else arrays[0]",
            "first = 0",
            "tests/reading/test_lookups.py::test_spelling[slopes transposed]",
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
