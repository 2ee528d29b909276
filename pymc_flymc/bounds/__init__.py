"""Lower bounds on a row's likelihood whose product over all rows collapses."""

from pymc_flymc.bounds.base import Bound, Preparation, Problem, is_bound
from pymc_flymc.bounds.bohning import Bohning
from pymc_flymc.bounds.factor import log_odds, row_factor
from pymc_flymc.bounds.jaakkola_jordan import JaakkolaJordan
from pymc_flymc.bounds.jebara_choromanska import JebaraChoromanska
from pymc_flymc.bounds.negative_binomial import FreeJaakkolaJordan
from pymc_flymc.bounds.tangent import Tangent
from pymc_flymc.bounds.taylor import Taylor

__all__ = [
    "Bohning",
    "Bound",
    "FreeJaakkolaJordan",
    "JaakkolaJordan",
    "JebaraChoromanska",
    "Preparation",
    "Problem",
    "Tangent",
    "Taylor",
    "is_bound",
    "log_odds",
    "row_factor",
]
