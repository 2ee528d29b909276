"""LLVM's modules by their addresses: llvmlite seeks each that is compiled or loaded among all.

A process that runs thousands of tests has thousands of modules, and would spend a tenth of its time
on this.
"""

from ctypes import c_void_p, cast
from weakref import WeakValueDictionary

from llvmlite.binding.executionengine import ExecutionEngine

__all__ = ["find_modules_by_address"]


def find_modules_by_address():
    """Let engines of this process look modules up in a dictionary."""
    add, seek = ExecutionEngine.add_module, ExecutionEngine._find_module_ptr
    known = WeakValueDictionary()

    def add_module(engine, module):
        add(engine, module)
        known[_address(module._ptr)] = module

    def find_module(engine, pointer):
        found = known.get(_address(pointer))
        # An address may be used again once a module is gone.
        return found if found in engine._modules else seek(engine, pointer)

    ExecutionEngine.add_module, ExecutionEngine._find_module_ptr = add_module, find_module


def _address(pointer):
    return cast(pointer, c_void_p).value
