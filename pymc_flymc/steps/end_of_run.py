"""Advice that is logged when PyMC warns that chains have not converged."""

import logging

from pymc.stats.convergence import run_convergence_checks

from pymc_flymc.compat.pymc import checked_draws
from pymc_flymc.reporting import log
from pymc_flymc.run_advice import advice_on_run
from pymc_flymc.run_numbers import Run

#: Most sentences that are logged; `report` has all.
MOST = 2


class _Advice(logging.Handler):
    """Logs the advice of `report` after PyMC's warnings on all chains, but not on one chain."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the advice. An error in it must not lose the draws."""
        if record.name != run_convergence_checks.__module__:
            return
        try:
            idata = checked_draws(record.getMessage())
            if idata is None:
                return
            queries = idata["sample_stats"].get("likelihood_queries")
            if queries is None or queries.ndim > 2:  # no Firefly step, or several
                return
            for sentence in list(advice_on_run(Run(idata)))[:MOST]:
                log.warning(sentence)
        except Exception:
            self.handleError(record)


def advise_at_the_end() -> None:
    """Set up logging of advice after the warnings that PyMC gives at the end of a run."""
    logger = logging.getLogger("pymc")
    if not any(isinstance(handler, _Advice) for handler in logger.handlers):
        logger.addHandler(_Advice())
