"""Lower bounds B_n on the likelihood L_n of each row, whose product over all rows collapses.

Reading order: `bound`, the protocol of bounds; `jaakkola_jordan`, the paper's, with the base class
of all that are quadratic in one predictor, such as `tangent`; `softmax`, for several predictors;
`taylor`, for any smooth likelihood; `taylor_parts`, the same for effects of groups. `validity`
checks bounds.
"""

from pymc_flymc.bounds.bound import (
    AllRows,
    Bound,
    ExpansionBound,
    Preparation,
    Problem,
    exact_factor,
    is_bound,
    is_for_joint_moves,
    log_odds,
    row_factor,
)
from pymc_flymc.bounds.jaakkola_jordan import FreeJaakkolaJordan, JaakkolaJordan
from pymc_flymc.bounds.scaled_taylor import ScaledTaylor, ScaledTaylorInParts
from pymc_flymc.bounds.softmax import Bohning, JebaraChoromanska
from pymc_flymc.bounds.tangent import Tangent
from pymc_flymc.bounds.taylor import Taylor
from pymc_flymc.bounds.taylor_parts import TaylorInParts

#: Bounds among which a step chooses by default.
BOUNDS: list[Bound] = [
    JaakkolaJordan(),
    FreeJaakkolaJordan(),
    JebaraChoromanska(),
    Bohning(),
    Tangent(),
    Taylor(),
    ScaledTaylor(),
]


__all__ = [
    "BOUNDS",
    "AllRows",
    "Bohning",
    "Bound",
    "ExpansionBound",
    "FreeJaakkolaJordan",
    "JaakkolaJordan",
    "JebaraChoromanska",
    "Preparation",
    "Problem",
    "ScaledTaylor",
    "ScaledTaylorInParts",
    "Tangent",
    "Taylor",
    "TaylorInParts",
    "exact_factor",
    "is_bound",
    "is_for_joint_moves",
    "log_odds",
    "row_factor",
]
