"""Mutants of how native code is kept and handed over."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "compat/numba.py": [
        (
            "what a kernel is handed is never let go",
            "        self.context.nrt = _Counts(self.context, self.context.enable_nrt)",
            "        pass",
            "tests/kernels/test_allocations.py::test_all_that_is_allocated_is_freed[slice]",
        ),
    ],
    "kernels/native.py": [
        (
            "sources left out of the key",
            'digest.update(path.read_bytes() if path.exists() else b"")',
            "pass",
            "tests/kernels/test_caching.py::test_a_change_in_what_is_imported_changes_the_key",
        ),
        (
            "only what is imported directly",
            "        new = {other for path in new for other in _imported(path)} - found",
            "        new = set()",
            "tests/kernels/test_caching.py::test_a_change_in_what_is_imported_changes_the_key",
        ),
        (
            "settings left out of the key",
            "digest = hashlib.sha256(environment().encode())",
            "digest = hashlib.sha256()",
            "tests/kernels/test_caching.py::test_settings_of_numba_change_the_key",
        ),
        (
            "imports that are not found",
            '_IMPORT = re.compile(rf"^\\s*(?:from|import)\\s+',
            '_IMPORT = re.compile(rf"^\\s*(?:import)\\s+',
            "tests/kernels/test_caching.py::test_all_imports_are_found",
        ),
        (
            "a number drawn as a generator is handed over",
            "    return rng.bit_generator",
            "    rng.random()\n    return rng.bit_generator",
            "tests/kernels/test_native.py",
        ),
        (
            "the first generator for all",
            "    return rng.bit_generator",
            (
                '    rng = address_of_generator.__dict__.setdefault("first", rng)\n    return '
                "rng.bit_generator"
            ),
            "tests/kernels/test_native.py",
        ),
        (
            "integers of half the size",
            "if hint is int:\n        return types.int64",
            "if hint is int:\n        return types.int32",
            (
                ""
                "tests/kernels/test_records.py::test_a_record_has_the_types_that_its_fields_are_annotated_with"
            ),
        ),
        (
            "alike members as a tuple of several types",
            "if len(set(members)) == 1:",
            "if False:",
            (
                ""
                "tests/kernels/test_records.py::test_a_record_has_the_types_that_its_fields_are_annotated_with"
            ),
        ),
        (
            "arrays that kernels may write to",
            "view.flags.writeable = False",
            "pass",
            (
                ""
                "tests/kernels/test_records.py::test_chains_hand_over_what_their_kernel_was_compiled_for[joint]"
            ),
        ),
        (
            "one dtype for all designs",
            "annotation if isinstance(annotation, types.Type) else annotation(*given)",
            (
                "annotation if isinstance(annotation, types.Type) else "
                "annotation(np.dtype(np.float64))"
            ),
            (
                ""
                "tests/kernels/test_records.py::test_a_record_has_the_types_that_its_fields_are_annotated_with"
            ),
        ),
        (
            "lists of another order",
            'types.Array(dtype, ndim, "C", readonly=True)',
            'types.Array(dtype, ndim, "A", readonly=True)',
            (
                ""
                "tests/kernels/test_records.py::test_a_record_has_the_types_that_its_fields_are_annotated_with"
            ),
        ),
    ],
}
