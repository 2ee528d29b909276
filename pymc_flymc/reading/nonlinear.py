"""Errors for operations that are not linear in the variables, in the words of a modeller."""

from pytensor.graph.basic import Apply
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg import Cholesky, MatrixInverse, Solve
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor

from pymc_flymc.reading.cotangent import NotReadableError, op_type

_SPLINES = "for a curve of a predictor x, a basis of splines computed before the model, B @ beta"
#: Why a product of two terms that vary cannot be read, and what to write instead.
PRODUCT = (
    "it is a product of two things that are both sampled and both differ by row, such as abilities "
    "and discriminations of items (2PL), factors and loadings, an unknown predictor and its "
    "coefficient, earlier errors and theirs",
    "numbers for one of the two; one discrimination for all items, "
    "slope * ability[person] - difficulty[item]; or, of few groups and levels, a coefficient for "
    "each pair, (slope[:, None] * effect)[group, level] for slope[group] * effect[level]",
)
#: The same for a quotient.
QUOTIENT = "it divides by a term that holds data and variables", _SPLINES
#: The same for a choice between terms that is itself sampled.
CHANGE_POINT = (
    "it chooses between terms by a condition that holds variables, as an unknown change point is",
    _SPLINES,
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
    """Return the error for an operation, of data and variables, for which there is no rule."""
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
