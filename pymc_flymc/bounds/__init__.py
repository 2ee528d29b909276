"""Lower bounds on a row's likelihood whose product over all rows collapses."""

from pymc_flymc.bounds.all_rows import AllRows
from pymc_flymc.bounds.base import (
    Bound,
    ExpansionBound,
    Preparation,
    Problem,
    is_bound,
    is_expansion,
)
from pymc_flymc.bounds.bohning import Bohning
from pymc_flymc.bounds.factor import exact_factor, log_odds, n_sums_of, row_factor
from pymc_flymc.bounds.jaakkola_jordan import JaakkolaJordan
from pymc_flymc.bounds.jebara_choromanska import JebaraChoromanska
from pymc_flymc.bounds.negative_binomial import FreeJaakkolaJordan
from pymc_flymc.bounds.scaled_taylor import ScaledTaylor
from pymc_flymc.bounds.tangent import Tangent
from pymc_flymc.bounds.taylor import Taylor
from pymc_flymc.bounds.taylor_parts import TaylorInParts
from pymc_flymc.settings import check_object

#: Those that a step chooses among, unless it is told which to take.
BOUNDS: list[Bound] = [
    JaakkolaJordan(),
    FreeJaakkolaJordan(),
    JebaraChoromanska(),
    Bohning(),
    Tangent(),
    Taylor(),
    ScaledTaylor(),
]


def register_bound(bound: Bound) -> None:
    """Let steps choose a further bound, for the likelihoods that it supports.

    Parameters
    ----------
    bound : Bound
        Taken where it promises fewer bright rows than the others, given the brightness of the
        rows.

    Raises
    ------
    ValueError
        If it is not a bound, but a class, say.
    """
    check_object("bound", bound, is_bound, "a bound")
    BOUNDS.insert(0, bound)


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
    "Tangent",
    "Taylor",
    "TaylorInParts",
    "exact_factor",
    "is_bound",
    "is_expansion",
    "log_odds",
    "n_sums_of",
    "register_bound",
    "row_factor",
]
