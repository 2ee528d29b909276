"""Private parts of numba and llvmlite: calls by address, the cache, how kernels are compiled."""

import contextlib
import ctypes
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

from numba import types
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.config import DISABLE_JIT  # type: ignore[attr-defined]
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic

from pymc_flymc.compat import private, require

_slow = "kernels take twice as long to compile"
_Library = private("numba.core.codegen:JITCodeLibrary", _slow)
for _name in ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals"):
    require(hasattr(_Library, _name), f"numba's {_name!r} of a library", _slow)


class _PartLibrary(_Library):  # type: ignore[misc, valid-type]
    """LLVM's code of a function that is never called by its address, as numba wrote it.

    A library holds all that its function calls. Numba would optimise each library, and make machine
    code of it, before it becomes part of its callers' libraries, where all of that is done again:
    the Metropolis kernel would take 31 s of a processor to compile, and not 15 s.
    """

    @property
    def codegen(self):
        return self

    def set_env(self, name, environment):
        """Skip what a function needs to call Python: kernels from disk do not have it, either."""

    def get_pointer_to_function(self, name):
        """Return None, as there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True


_CountingLower = private("numba.core.lowering:Lower", _slow)
_Counts = private("numba.core.runtime.context:NRTContext", _slow)
require(hasattr(_Counts, "_call_incref_decref"), "numba's counts of references", _slow)


class _CountsOfArrays(_Counts):  # type: ignore[misc, valid-type]
    """Writes LLVM's code that counts references: to arrays, but not to arrays within records.

    Kernels' callers hold the arrays of records, see `view`. Numba would count each array of a
    record wherever the record is named: most of a kernel's instructions, all without effect (the
    Metropolis kernel would take 25 s to compile, and not 15 s). So a kernel must not put an array
    that it has allocated into a record: nobody would hold it.
    """

    def _call_incref_decref(self, builder, typ, value, funcname):
        if not _has_record(typ):
            super()._call_incref_decref(builder, typ, value, funcname)


def _has_record(kind: types.Type) -> bool:
    """Return whether a type is a record, or a tuple of records."""
    members: Any = kind if isinstance(kind, types.BaseTuple) else ()
    return isinstance(kind, types.BaseNamedTuple) or any(map(_has_record, members))


class _Lower(_CountingLower):  # type: ignore[misc, valid-type]
    def lower(self):
        """Write a function as LLVM's code; its wrappers count all their arguments."""
        self.context.nrt = _CountsOfArrays(self.context, self.context.enable_nrt)
        super().lower()
        self.context.nrt = _Counts(self.context, self.context.enable_nrt)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "pymc_flymc_lowering"

    @property
    def lowering_class(self):
        return _Lower


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(_Lowering):
    _name = "pymc_flymc_part_lowering"

    def run_pass(self, state):
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().run_pass(state)


class KernelCompiler(Compiler):
    """Compiles functions whose callers hold all records among the arguments."""

    #: Replaces numba's own pass that writes LLVM's code.
    lowering: type[NativeLowering] = _Lowering

    def define_pipelines(self) -> list[PassManager]:
        """Return numba's own passes with one replaced."""
        (passes,) = super().define_pipelines()
        own = PassManager(passes.pipeline_name)
        for each, description in passes.passes:
            own.add_pass(self.lowering if each is NativeLowering else each, description)
        own.finalize()
        return [own]


class PartCompiler(KernelCompiler):
    """Compiles functions that only kernels call: they have no wrappers, and are optimised there."""

    lowering = _PartLowering


_native = "no kernel can be compiled"
cgutils = private("numba.core:cgutils", _native)
#: Converts an array of a known length to a tuple.
to_fixed_tuple = private("numba.np.unsafe.ndarray:to_fixed_tuple", _native)

#: Python that native code runs without checking whether it failed. With the first two numba passes
#: random generators and arrays: an interrupt raised there causes a crash or a `SystemError`.
#: Kernels run neither, but functions of PyMC do, such as the one that records a draw. In the others
#: LLVM returns what it has compiled, which would be lost.
_interrupts = "an interrupt (Ctrl-C) may end Python, or be lost"
UNCHECKED: frozenset[CodeType] = frozenset(
    function.__code__
    for function in (
        ctypes.cast,
        private("numba.core.serialize:_numba_unpickle", _interrupts),
        private(
            "llvmlite.binding.executionengine:ExecutionEngine._raw_object_cache_notify", _interrupts
        ),
        private(
            "llvmlite.binding.executionengine:ExecutionEngine._raw_object_cache_getbuffer",
            _interrupts,
        ),
    )
)

_cache = "the package needs a folder that can be written to"
_Locator = private("numba.core.caching:UserProvidedCacheLocator", _cache)
_locators = private("numba.core.caching:CacheImpl._locator_classes", _cache)


class _BesidePyTensor(_Locator):  # type: ignore[misc, valid-type]
    """Keeps compiled code in PyTensor's folder, if no other folder can be written to.

    Without it numba would raise an error when a cached function is defined, which is on import.
    """

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        folder = Path(import_module("pytensor").config.compiledir)
        self._cache_path = str(folder / self.get_suitable_cache_subpath(py_file))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return where a function is kept, or None if it does not belong to the package."""
        if not Path(py_file).is_relative_to(Path(__file__).parents[1]):
            return None
        locator = cls(py_func, py_file)
        locator.ensure_cache_path()
        return locator


_locators.append(_BesidePyTensor)
_Cache = private("numba.core.caching:FunctionCache", _cache)


class _ForgivingCache(_Cache):  # type: ignore[misc, valid-type]
    """Numba's cache of compiled code, for files that are broken and disks that are full.

    Numba does not flush to the disk: after a power cut its files may be empty. It would raise the
    error of reading them again and again, until somebody deletes them.
    """

    def load_overload(self, sig, target_context):
        """Return the cached code, or None if it cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling damaged bytes can raise anything
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        """Write compiled code, if there is room."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warnings.warn(
                f"compiled code is not kept for the next time: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def keep_on_disk(dispatcher: Any) -> None:
    """Cache compiled code as numba's ``cache=True`` does, but compile again what cannot be read."""
    if not DISABLE_JIT:
        dispatcher._cache = _ForgivingCache(dispatcher.py_func)


def address_of(function: Any, arguments: tuple[types.Type, ...]) -> tuple[Any, types.Type | None]:
    """Compile for some types of arguments; return the function's address and its return type."""
    # The function has numba's own calling convention, which returns a status. The C wrapper around
    # it would ignore an exception and return zeros, as a log density or a pointer.
    if DISABLE_JIT:  # tests that enumerate a kernel's random choices run it as Python
        return function, None
    _, _, folded, _ = function.get_call_template(arguments, {})  # compiles, or loads
    result = function.overloads[tuple(folded)]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return address, result.signature.return_type


def entry_point(kernel: Any) -> Callable[..., Any]:
    """Return what numba calls once it has found a compiled kernel for some types of arguments."""
    # Numba needs microseconds per call to find it, and each kernel has a single signature.
    # Arguments of other types would be misread: the caller must build the right ones.
    if DISABLE_JIT:
        return kernel  # type: ignore[no-any-return]
    (signature,) = kernel.signatures
    return kernel.overloads[signature].entry_point  # type: ignore[no-any-return]


def native_caller(
    arguments: tuple[types.Type, ...], returned: types.Type | None, as_tuple: bool = False
) -> Callable[..., Any]:
    """Return ``call(address, *args)``, usable in native code, for functions of given types.

    The functions of PyTensor's numba linker are of the form ``f(*args)``: in machine code, they
    take one tuple. An exception in the function is raised to the kernel's caller.
    """
    if DISABLE_JIT:
        return lambda function, *args: function(*args)

    def codegen(context, builder, sig, args):
        address, packed = args
        values = [packed] if as_tuple else cgutils.unpack_tuple(builder, packed)
        kinds = (sig.args[1],) if as_tuple else arguments
        convention = context.call_conv
        pointer = convention.get_function_type(returned, kinds).as_pointer()
        function = builder.inttoptr(address, pointer)
        status, value = convention.call_function(builder, function, returned, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return value

    @intrinsic
    def call(typingctx, address, *arguments_):
        return returned(types.int64, types.StarArgTuple(arguments)), codegen

    return call  # type: ignore[no-any-return]


def _viewer() -> Callable[..., Any]:
    """Return ``view(named_tuple)``, usable in native code."""
    if DISABLE_JIT:
        return lambda record: record

    def strip(context, builder, kind, record):
        for i, member in enumerate(kind):
            value = builder.extract_value(record, i)
            if isinstance(member, types.Array):
                array = context.make_array(member)(context, builder, value=value)
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                record = builder.insert_value(record, array._getvalue(), i)
            elif isinstance(member, types.BaseTuple):
                record = builder.insert_value(record, strip(context, builder, member, value), i)
        return record

    def codegen(context, builder, sig, args):
        return strip(context, builder, sig.args[0], args[0])

    @intrinsic
    def view(typingctx, record):
        """Return a non-owning view of the record: its arrays without their reference counts."""
        # Numba counts references, atomically, to each array wherever it is read from a record (not
        # to records themselves, see `_CountsOfArrays`). The caller of a kernel holds the arrays
        # while it runs, so that no counts are needed: transitions take a fifth less time.
        return record(record), codegen

    return view  # type: ignore[no-any-return]


view = _viewer()


def _reader() -> Callable[..., Any]:
    """Return ``generator_at(address)``, usable in native code."""
    if DISABLE_JIT:
        return lambda rng: rng

    bits_type = types.NumPyRandomBitGeneratorType("bits")
    # Fields of ``bitgen_t``, the C structure that NumPy publishes in ``numpy/random/bitgen.h``, in
    # order: all are pointers. These are numba's names for them.
    fields = "state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double"

    def codegen(context, builder, sig, args):
        pointers = builder.inttoptr(args[0], cgutils.intp_t.as_pointer())
        # Other fields are null: native code does not count references to a generator.
        bits = cgutils.create_struct_proxy(bits_type)(context, builder)
        for i, field in enumerate(fields):
            setattr(bits, field, builder.load(cgutils.gep_inbounds(builder, pointers, i)))
        generator = cgutils.create_struct_proxy(types.npy_rng)(context, builder)
        generator.bit_generator = bits._getvalue()
        return generator._getvalue()

    @intrinsic
    def generator_at(typingctx, address):
        """Return the generator whose ``bitgen_t`` is at an address; its caller keeps it alive."""
        return types.npy_rng(types.int64), codegen

    return generator_at  # type: ignore[no-any-return]


generator_at = _reader()
