"""Private parts of numba: the compilation of kernels and their parts to LLVM's code."""

from typing import Any

from numba import types
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering

from pymc_flymc.compat import private, require

_slow = "kernels take a third longer to compile"
_Library = private("numba.core.codegen:JITCodeLibrary", _slow)
for _name in ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals"):
    require(hasattr(_Library, _name), f"numba's {_name!r} of a library", _slow)


class _PartLibrary(_Library):  # type: ignore[misc, valid-type]
    """LLVM's code of a function that is never called by its address, as numba wrote it.

    A library holds all that its function calls. Numba would optimise each library, and make machine
    code of it, before it becomes part of its callers' libraries, where all of that is done again.
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
    record wherever the record is named: most of a kernel's instructions, all without effect. So a
    kernel must not put an array that it has allocated into a record: nobody would hold it.
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
