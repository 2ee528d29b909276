"""How native code is compiled, called and kept: records, generators, keys on disk, densities."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import llvmlite
import numba
import numpy as np
from numba import types

from pymc_flymc.compat.numba import (
    DISABLE_JIT,
    KernelCompiler,
    PartCompiler,
    address_of,
    keep_on_disk,
    native_caller,
)
from pymc_flymc.kernels.layout import POWERS


def vector(dtype: types.Type = types.float64) -> types.Array:
    """Return the numba type of a C-contiguous vector."""
    return types.Array(dtype, 1, "C")


def unwritten(dtype: types.Type = types.float64, ndim: int = 1) -> types.Array:
    """Return the numba type of a C-contiguous array that kernels cannot write, see `read_only`."""
    return types.Array(dtype, ndim, "C", readonly=True)


matrix = types.Array(types.float64, 2, "C")

Vector = Annotated[np.ndarray, vector()]
IntVector = Annotated[np.ndarray, vector(types.int64)]
Int32Vector = Annotated[np.ndarray, vector(types.int32)]
Matrix = Annotated[np.ndarray, matrix]


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of a C-contiguous array that kernels cannot write, by its numba type."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def zeros(length: int, *names: str) -> dict[str, np.ndarray]:
    """Return a new vector of zeros for each of a record's fields."""
    return {name: np.zeros(length) for name in names}


def map_fields(record: Any, function: Callable[[Any], Any]) -> Any:
    """Return a record, or a tuple of records, with a function applied to each field within."""
    if not isinstance(record, tuple):
        return function(record)
    mapped = [map_fields(each, function) for each in record]
    return tuple(mapped) if type(record) is tuple else type(record)(*mapped)


def record_type(cls: type, *given: Any) -> types.Type:
    """Return the numba type of a record, given the dtype and the number of designs if needed."""
    hints = get_type_hints(cls, include_extras=True)
    members = [_type_of(hint, given) for hint in hints.values()]
    if len(set(members)) == 1:  # numba has a special type for equal members
        return types.NamedUniTuple(members[0], len(members), cls)
    return types.NamedTuple(members, cls)


def _type_of(hint: Any, given: tuple[Any, ...]) -> types.Type:
    if hint is int:
        return types.int64
    if isinstance(hint, type):
        return record_type(hint, *given)
    (annotation,) = hint.__metadata__
    return annotation if isinstance(annotation, types.Type) else annotation(*given)


#: Numba type of a generator as an argument of a kernel.
GENERATOR = types.int64


def address_of_generator(rng: np.random.Generator) -> Any:
    """Return the address of a generator's ``bitgen_t``, which lives as long as the generator."""
    if DISABLE_JIT:
        return rng
    return rng.bit_generator.ctypes.bit_generator.value


PACKAGE = Path(__file__).parents[1]
#: Settings of numba that change what it compiles, but are not part of its own cache keys.
FLAGS = (
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "ENABLE_PROFILING",
    "EXTEND_VARIABLE_LIFETIMES",
    "LLVM_REFPRUNE_PASS",
    "LLVM_REFPRUNE_FLAGS",
    "LOOP_VECTORIZE",
    "OPT",
    "SLP_VECTORIZE",
    "USING_SVML",
)
#: When this process loaded the package.
LOADED = time.time()
#: Imports from the package. (Modules in its top folder check and report: none of them is compiled.)
_IMPORT = re.compile(rf"^\s*(?:from|import)\s+{PACKAGE.name}\.(\w+(?:\.\w+)*)", re.MULTILINE)


@functools.cache
def environment() -> str:
    """Return what compiled code depends on that neither sources nor numba's own keys contain."""
    versions = llvmlite.__version__, np.__version__, version("pytensor")
    return repr((*versions, *(getattr(numba.config, flag, None) for flag in FLAGS)))


@functools.cache
def version_of(file: str) -> int:
    """Return a number for everything that native code of a file, `__file__`, is compiled from.

    Numba notices a change in the file of a cached function, but not in the files of functions that
    it inlines. So the number covers all files of the package that the file imports, directly or
    indirectly. Files that are newer than this process, after an upgrade, are not the code that it
    runs. The number is then random: old code must not be kept under the key of the new files.
    """
    found, new = set(), {Path(file)}
    while new:
        found |= new
        new = {other for path in new for other in _imported(path)} - found
    digest = hashlib.sha256(environment().encode())
    for path in sorted(found):
        digest.update(path.read_bytes() if path.exists() else b"")
        if path.exists() and _changed(path) > LOADED:
            digest.update(os.urandom(16))
    # Keys of operations are integers of 64 bits.
    return int(digest.hexdigest()[:15], 16)


def _changed(path: Path) -> float:
    """Return when a file was written, or put in its place: installers may keep the first date."""
    found = path.stat()
    return max(found.st_mtime, found.st_ctime)


@functools.cache
def _imported(path: Path) -> frozenset[Path]:
    """Return the package's files that a file imports from; for a folder, all files in it."""
    if not path.exists():  # a frozen application: numba looks at the executable
        return frozenset()
    found: set[Path] = set()
    for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
        place = PACKAGE.joinpath(*name.split("."))
        file = place.with_suffix(".py")
        found |= {file} if file.exists() else set(place.rglob("*.py"))
    return frozenset(file for file in found if file.parent != PACKAGE)


#: ``log_factor(eta, constants, shared, out)`` writes the log factor of each row, from the rows'
#: predictors and constants, and from the numbers that all rows share.
LOG_FACTOR = types.void(matrix, matrix, vector(), vector())
#: ``log_factor_gradient(eta, constants, shared, out, slopes, slope)`` writes log factors of the
#: rows, and their derivatives in the predictors; and sums derivatives in the shared numbers.
LOG_FACTOR_GRADIENT = types.void(matrix, matrix, vector(), vector(), matrix, vector())


class NativeFunction:
    """A compiled function that a kernel calls by its `address`, see `address_of`.

    Numba's own first-class functions take 30 microseconds per kernel call to pass; an address is an
    integer. The object must outlive every use of its address. The signature is one of those above;
    `widths` are lengths of rows of the first two arguments, and of the third, if the function reads
    that many; `cached` functions are kept on disk by numba.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: Any,
        widths: tuple[int, ...] = (),
        cached: bool = False,
    ) -> None:
        self.function = numba.njit(function)
        if cached:
            keep_on_disk(self.function)
        self.address, _ = address_of(self.function, signature.args)
        self._widths = widths

    def __call__(self, *args: Any) -> Any:
        """Call the function from Python; refuse arguments without the widths that it reads."""
        found = tuple(arg.shape[-1] for arg, _ in zip(args, self._widths, strict=False))
        if found != self._widths:
            raise ValueError(
                f"a row's log factor reads {self._widths} predictors, constants and shared "
                f"numbers, and is given {found}"
            )
        return self.function(*args)


call_log_factor = native_caller(LOG_FACTOR.args, LOG_FACTOR.return_type)
call_log_factor_gradient = native_caller(LOG_FACTOR_GRADIENT.args, LOG_FACTOR_GRADIENT.return_type)


#: Nobody calls kernels from C.
_compiled = functools.partial(numba.njit, no_cfunc_wrapper=True, pipeline_class=KernelCompiler)


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for a signature, once for each version of its sources; kept on disk.

    The version is part of the name under which a kernel is kept, see `version_of`. Otherwise numba
    would read the types in another version's cache first, and these may no longer exist. The
    signature is part of it, too: two processes that write kernels of the same name may mix them up.
    """
    arguments = hashlib.sha256(str(signature).encode()).hexdigest()

    def compile_for(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{version_of(function.__code__.co_filename):x}_{arguments[:16]}"
        dispatcher: Any = _compiled(function)
        if not DISABLE_JIT:
            keep_on_disk(dispatcher)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return compile_for


def lazy_kernel(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return `kernel` for a function that is compiled when it is first called."""

    def compile_later(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = functools.cache(lambda: kernel(signature)(function))

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return compiled()(*arguments)

        return call

    return compile_later


#: Decorator of functions that only kernels call. It leaves out wrappers for calls from Python and
#: C: for records of many arrays these take a quarter of the compile time. Functions are optimised
#: where they are called, which halves it. Long functions with a single caller have
#: ``inline="always"``: else they are compiled alone, and again in the caller.
kernel_part = functools.partial(
    numba.njit, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler
)
#: A function that is called for each row is always inlined: a call would pass each field of the
#: rows' record, about sixty numbers, which takes a hundred times as long as a row's rate.
row_part = functools.partial(kernel_part, forceinline=True)


#: Number of scalars that a density returns in addition to its coefficients and value: what the
#: bound shares with all rows at this theta (nothing, or two powers of a radius), and zeros. Scalars
#: come in registers; an array would have to be allocated.
N_SHARED = len(POWERS)

#: Message on outputs of a wrong length, which would overrun an array; no graph here has them.
LENGTHS = "a density's coefficients or gradient do not have the length of a chain's"

# A result may be a view: it is read by its strides.
_vector = types.Array(types.float64, 1, "A")
_numbers = [types.float64] * (1 + N_SHARED)

#: ``(theta, statistics) -> w, log density, shared...``
DENSITY = types.Tuple([_vector, *_numbers])(vector(), vector())
#: ``(theta, statistics) -> w and shared numbers, gradient in theta, slope, log density``: the
#: slope in w, if there is any, times the Jacobian of w has to be added to the gradient.
GRADIENT = types.Tuple([_vector, _vector, _vector, types.float64])(vector(), vector())
#: ``(theta, statistics, slope) -> gradient in theta``: the vector-Jacobian product of a slope
#: in the coefficients, and in what follows them.
VJP = types.Tuple([_vector])(vector(), vector(), vector())


def _caller(signature: Any) -> Callable[..., Any]:
    return native_caller(signature.args, signature.return_type, as_tuple=True)


_density, _gradient, _vjp = map(_caller, (DENSITY, GRADIENT, VJP))


@kernel_part
def call_density(address, theta, statistics, w_out):
    """Return the log density at theta; write the coefficients and the shared numbers."""
    w, log_density, first, second = _density(address, theta, statistics)
    # An array assignment would compile numba's whole shape-mismatch report: three seconds.
    n = w.shape[0]
    if n > w_out.shape[0]:
        raise ValueError(LENGTHS)
    for j in range(n):
        w_out[j] = w[j]
    for j in range(n, w_out.shape[0]):
        w_out[j] = first if j == n else second
    return log_density


class Jacobian(NamedTuple):
    """Jacobian of coefficients that are affine in theta: a sparse matrix by rows."""

    start: Int32Vector  #: Where each row begins, (P + 1,); empty if the Jacobian is not constant.
    place: Int32Vector  #: Columns of the elements.
    value: Vector

    @classmethod
    def of(cls, matrix: np.ndarray | None) -> Jacobian:
        """Return the elements of a matrix (P, D) that are not zero."""
        if matrix is None:
            return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
        row, place = np.nonzero(matrix)
        start = np.searchsorted(row, np.arange(len(matrix) + 1))
        return cls(start.astype(np.int32), place.astype(np.int32), matrix[row, place])


@kernel_part
def add_times(jacobian, slope, out):
    """Add slope times the Jacobian to out."""
    for j in range(jacobian.start.shape[0] - 1):
        for k in range(jacobian.start[j], jacobian.start[j + 1]):
            out[jacobian.place[k]] += jacobian.value[k] * slope[j]


@kernel_part
def call_density_gradient(address, jacobian, theta, statistics, w_out, out):
    """Return `call_density`, and write the gradient in theta, too."""
    w, gradient, slope, log_density = _gradient(address, theta, statistics)
    if w.shape[0] != w_out.shape[0] or gradient.shape[0] != out.shape[0]:
        raise ValueError(LENGTHS)
    for j in range(w.shape[0]):
        w_out[j] = w[j]
    for j in range(out.shape[0]):
        out[j] = gradient[j]
    if slope.shape[0] > 0:
        add_times(jacobian, slope, out)
    return log_density


@kernel_part
def call_vjp(address, jacobian, theta, statistics, slope, out):
    """Add the gradient in theta that a slope in the coefficients implies."""
    if jacobian.start.shape[0] > 0:
        add_times(jacobian, slope, out)
    else:
        add_vjp(address, theta, statistics, slope, out)


@kernel_part
def add_vjp(address, theta, statistics, slope, out):
    """Add a graph's gradient in theta for a slope in the coefficients, or other outputs."""
    (gradient,) = _vjp(address, theta, statistics, slope)
    if gradient.shape[0] != out.shape[0]:
        raise ValueError(LENGTHS)
    for j in range(out.shape[0]):
        out[j] += gradient[j]


class NativeGraph:
    """A compiled graph that kernels call by its `address`, which is valid while it exists."""

    def __init__(self, graph: Any, signature: Any) -> None:
        self._graph, self._signature = graph, signature
        self.address, returned = address_of(graph, signature.args)
        if not DISABLE_JIT and not _same(returned, signature.return_type):
            raise TypeError(f"a graph returns {returned} instead of {signature.return_type}")

    def __call__(self, *arguments: Any) -> Any:
        """Call a density from Python, with the arguments that kernels give after the address."""
        return _entry(self._signature)(self.address, *arguments)


def _same(returned: Any, expected: Any) -> bool:
    """Return whether types are the same in memory: an array's layout is in its strides."""
    plain = [_vector if isinstance(t, types.Array) and _is_vector(t) else t for t in returned]
    return plain == list(expected)


def _is_vector(kind: types.Array) -> bool:
    return kind.ndim == 1 and kind.dtype == types.float64


@functools.cache
def _entry(signature: Any) -> Any:
    """Return the compiled function that Python calls for the signature of a density."""
    assert signature in (DENSITY, GRADIENT), "vector-Jacobian products are for kernels"
    number, v = types.float64, vector()
    if signature == DENSITY:

        @kernel(number(types.int64, v, v, v))
        def density(address, theta, statistics, w_out):
            return call_density(address, theta, statistics, w_out)

        return density

    @kernel(number(types.int64, record_type(Jacobian), v, v, v, v))
    def density_gradient(address, jacobian, theta, statistics, w_out, out):
        return call_density_gradient(address, jacobian, theta, statistics, w_out, out)

    return density_gradient
