"""Tables of observed values as rows: in C order, each with the effects of its axes.

In ``theta[:, None] - b[None, :]``, for observed values of persons (axis 0) and items (axis 1), an
effect of persons has one value for each person. As rows this is ``theta[person] - b[item]``, with
the indices of each row's person and item. Neither is written out as columns of zeros and ones.
"""

from dataclasses import replace

import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import Shapes, freeze
from pymc_flymc.likelihoods.likelihood import RowParameters


def as_rows(
    parameters: RowParameters, shape: tuple[int, ...], shapes: Shapes, name: str
) -> RowParameters:
    """Return the parameters of a table of observed values as those of its N rows, in C order."""
    if parameters.likelihood.n_predictors > 1:
        raise several_predictors(name, len(shape))

    def rows_of(graph: TensorVariable) -> TensorVariable:
        frozen = freeze(graph, shapes)
        own = frozen.type.shape
        if all(frozen.type.broadcastable):
            return frozen.squeeze()
        if len(own) > len(shape) or any(
            n not in (None, 1, m) for n, m in zip(own, shape[len(shape) - len(own) :], strict=True)
        ):
            raise UnsupportedModelError(
                f"a parameter of {name!r} has the shape {own}, and the observed values have "
                f"{shape}: write it with a row for each value, and a column of outcomes as "
                "observed=y.ravel()"
            )
        return pt.broadcast_to(frozen, shape).flatten()

    return replace(
        parameters,
        predictors=rows_of(parameters.predictors),
        row_data=[rows_of(graph) for graph in parameters.row_data],
        rest=None if parameters.rest is None else rows_of(parameters.rest),
        unit=None if parameters.unit is None else rows_of(parameters.unit),
    )


def several_predictors(name: str, ndim: int) -> UnsupportedModelError:
    """Return the error for a table of a family with several predictors."""
    return UnsupportedModelError(
        f"the observed variable {name!r} has {ndim} dimensions, which is supported for likelihoods "
        "with one predictor only: write it with a row for each value, as in "
        "person, item = np.indices(Y.shape).reshape(2, -1), with effects theta[person] and "
        "observed=Y.ravel()"
    )
