"""Collapsed sums as PyTensor operations: quadratics, and powers of radii."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit

from pymc_flymc.compat.pytensor import register_funcify_default_op_cache_key
from pymc_flymc.kernels.collapsed import (
    quadratic,
    quadratic_kernel,
    radius_powers,
    radius_powers_gradient,
    radius_powers_gradient_kernel,
    radius_powers_kernel,
)
from pymc_flymc.kernels.layout import PARTS_SHARED, quadratic_places
from pymc_flymc.kernels.native import version_of
from pymc_flymc.kernels.rows import SUMS


class Quadratic(Op):
    """From u and packed statistics to linear . u, u' A u and A u; A is symmetric."""

    __props__ = ("has_header",)
    gufunc_signature = "(p),(s)->(),(),(p)"

    def __init__(self, has_header: bool) -> None:
        self.has_header = has_header

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node for float64 vectors."""
        u, statistics = map(pt.as_tensor, inputs)
        scalars = [pt.scalar(dtype="float64") for _ in range(2)]
        return Apply(self, [u, statistics], [*scalars, u.type()])

    def perform(self, node: Apply, inputs: Sequence[Any], storage: list[list[Any]]) -> None:
        """Evaluate in Python."""
        u, statistics = (np.ascontiguousarray(each, dtype=np.float64) for each in inputs)
        product = np.empty_like(u)
        numbers = quadratic_kernel(u, statistics, self.has_header, product)
        for out, value in zip(storage, (*map(np.asarray, numbers), product), strict=True):
            out[0] = value

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes of the outputs."""
        return [(), (), shapes[0]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Return that no output has a derivative in the statistics."""
        return [[True] * 3, [False] * 3]

    def pullback(
        self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]
    ) -> list[Variable]:
        """Return the graph of the gradient in u: A u is an output already."""
        (u, statistics), (along, form, product) = inputs, cotangents
        parts: list[Any] = []
        if not isinstance(along.type, DisconnectedType):
            parts.append(along * statistics[quadratic_places(u.shape[0]).linear])
        if not isinstance(form.type, DisconnectedType):
            parts.append(2.0 * form * outputs[2])
        if not isinstance(product.type, DisconnectedType):
            again: Any = self(product, statistics)
            parts.append(again[2])
        gradient = sum(parts[1:], start=parts[0])
        return [gradient, DisconnectedType()()]


@register_funcify_default_op_cache_key(Quadratic)
def _funcify(op: Quadratic, node: Apply, **_: Any) -> tuple[Any, int]:
    has_header = op.has_header
    native: Any = quadratic

    @numba_njit
    def evaluate(u: Any, statistics: Any) -> Any:
        product = np.empty(u.shape[0])
        along, form = native(u, statistics, has_header, product)
        return np.asarray(along), np.asarray(form), product

    return evaluate, version_of(__file__)


class RadiusPowers(Op):
    """From u and packed numbers to the 2 + 2 Q powers of each part's radius, which rows share."""

    __props__ = ("n_sparse",)

    def __init__(self, n_sparse: int) -> None:
        self.n_sparse = n_sparse
        self.n_shared = PARTS_SHARED.effects + SUMS * n_sparse

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node for float64 vectors."""
        shared = pt.tensor(dtype="float64", shape=(self.n_shared,))
        given = [pt.as_tensor(each) for each in inputs]
        return Apply(self, given, [shared])

    def perform(self, node: Apply, inputs: Sequence[Any], storage: list[list[Any]]) -> None:
        """Evaluate in Python."""
        storage[0][0] = np.empty(self.n_shared)
        radius_powers_kernel(*_doubles(inputs), storage[0][0])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shapes of the outputs."""
        return [(self.n_shared,)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Return that there is no derivative in the packed numbers."""
        return [[True], [False]]

    def pullback(
        self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]
    ) -> list[Variable]:
        """Return the graph of the gradient in u."""
        slope: Any = RadiusPowersGradient()(*inputs, *cotangents)
        return [slope, DisconnectedType()()]


class RadiusPowersGradient(Op):
    """Gradient of `RadiusPowers`, from u, packed numbers, and the slope in the shared numbers."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        """Return the node for float64 inputs."""
        given: list[Any] = [pt.as_tensor(each) for each in inputs]
        return Apply(self, given, [given[0].type()])

    def perform(self, node: Apply, inputs: Sequence[Any], storage: list[list[Any]]) -> None:
        """Evaluate in Python."""
        u, packed, slope = _doubles(inputs)
        storage[0][0] = np.empty_like(u)
        radius_powers_gradient_kernel(u, packed, slope, storage[0][0])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the shape of the output."""
        return [shapes[0]]


def _doubles(inputs: Sequence[Any]) -> list[np.ndarray]:
    return [np.ascontiguousarray(each, dtype=np.float64) for each in inputs]


@register_funcify_default_op_cache_key(RadiusPowers)
def _funcify_parts(op: RadiusPowers, node: Apply, **_: Any) -> tuple[Any, int]:
    size = op.n_shared
    native: Any = radius_powers

    @numba_njit
    def evaluate(u: Any, packed: Any) -> Any:
        shared = np.empty(size)
        native(u, packed, shared)
        return shared

    return evaluate, version_of(__file__)


@register_funcify_default_op_cache_key(RadiusPowersGradient)
def _funcify_slope(op: RadiusPowersGradient, node: Apply, **_: Any) -> tuple[Any, int]:
    native: Any = radius_powers_gradient

    @numba_njit
    def evaluate(u: Any, packed: Any, slope: Any) -> Any:
        out = np.empty(u.shape[0])
        native(u, packed, slope, out)
        return out

    return evaluate, version_of(__file__)
