"""Lower bounds on a row's likelihood whose product over all rows collapses."""

from pymc_flymc.bounds.base import Bound, log_odds
from pymc_flymc.bounds.jaakkola_jordan import JaakkolaJordan
from pymc_flymc.bounds.quadratic import QuadraticStatistics, collapsed_quadratic

__all__ = ["Bound", "JaakkolaJordan", "QuadraticStatistics", "collapsed_quadratic", "log_odds"]
