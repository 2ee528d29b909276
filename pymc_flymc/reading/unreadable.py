"""Why a linear predictor cannot be read, and what to write instead."""

from typing import Any

from pytensor.graph.basic import Apply
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg import Cholesky, MatrixInverse, Solve
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor


def op_type(node: Apply) -> type:
    """Return the type of a node's operation, without what applies it to each element or batch."""
    op: Any = node.op
    if isinstance(op, Elemwise):
        return type(op.scalar_op)
    if isinstance(op, Blockwise):
        return type(op.core_op)
    return type(op)


class NotReadableError(Exception):
    """An operation that cannot be read: `reason` completes "because ...", `instead` is a remedy."""

    def __init__(self, reason: str, instead: str = "") -> None:
        super().__init__(reason)
        self.instead = instead


_SPLINES = "for a curve of a predictor x, a basis of splines computed before the model, B @ beta"
PRODUCT = (
    "it is a product of two things that are both sampled and both differ by row, such as abilities "
    "and discriminations of items (2PL), factors and loadings, an unknown predictor and its "
    "coefficient, earlier errors and theirs",
    "numbers for one of the two; one discrimination for all items, "
    "slope * ability[person] - difficulty[item]; or, of few groups and levels, a coefficient for "
    "each pair, (slope[:, None] * effect)[group, level] for slope[group] * effect[level]",
)
QUOTIENT = "it divides by a term that holds data and variables", _SPLINES
CHANGE_POINT = (
    "it chooses between terms by a condition that holds variables, as an unknown change point is",
    _SPLINES,
)
JOINS_ROWS = (
    "it joins rows of several terms",
    "observe the rows of each term as a likelihood of their own, in one model",
)
TAKES_ROWS = (
    "it takes some rows out of a term, as in (X @ b)[keep]",
    "index the data, as in X[keep] @ b",
)
TAKES_ELEMENTS = (
    "it takes an element of each row of a term, as in (X @ B)[rows, column]",
    "(X * B.T[column]).sum(axis=1)",
)
#: Operations, what models use them for, and what to write instead.
_KNOWN = (
    (
        (Cholesky, MatrixInverse, Solve),
        "it holds a covariance with a row for each row of data, as an exact Gaussian process does",
        "pm.gp.HSGP(...).prior(...), which is linear in its coefficients",
    ),
    (
        (AdvancedIncSubtensor, IncSubtensor),
        "it puts variables among data, as PyMC does to impute missing values",
        "complete rows, X[keep] and y[keep]; or sample for each of several imputations that were "
        "made before the model, and put the draws together",
    ),
    (
        (Scan,),
        "it is computed in a loop, each value from the one before",
        "a variable with a value for each period, such as pm.GaussianRandomWalk or pm.AR, as "
        "a[period]",
    ),
)


def not_linear(node: Apply) -> NotReadableError:
    """Return the error for an operation, of data and variables, without a rule."""
    for kinds, reason, instead in _KNOWN:
        if issubclass(op_type(node), kinds):
            return NotReadableError(reason, instead)
    if isinstance(node.op, Elemwise):
        function = str(node.op.scalar_op).lower()
        return NotReadableError(
            f"it is not linear in the variables: it takes {function} of a term that holds them "
            "and data",
            _SPLINES,
        )
    return NotReadableError(f"it is not known to be linear in the variables: it holds {node.op}")
