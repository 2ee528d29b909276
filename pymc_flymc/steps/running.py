"""Checks of the ``pm.sample`` that is running, and advice at its end."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pymc.model import Model
from pymc.stats.convergence import run_convergence_checks
from pymc.util import get_untransformed_name, is_transformed_name

from pymc_flymc.compat.pymc import arguments_of_sample, chains_are_running, checked_draws
from pymc_flymc.errors import warn
from pymc_flymc.reporting import log
from pymc_flymc.run_report import Run, advice_on_run


def check_model(model: Model | None, name: str) -> None:
    """Refuse to sample with a step that was built in another model, or without one."""
    # Copies of a step that are sent to chains' processes have no model: they would sample given the
    # data at the time of the copy.
    arguments = arguments_of_sample()
    if arguments is None:
        return
    if model is None:
        raise ValueError(
            f"this {name} is a copy, which does not see when the model's data change: give "
            f"pm.sample the step itself, or build another, as in `pm.sample(step={name}())`"
        )
    sampled = arguments.get("model")
    if isinstance(sampled, Model) and sampled.root is not model.root:
        raise ValueError(
            f"{name} was built in another model than the one that pm.sample is given: build the "
            f"step in this one, as in `with model: pm.sample(step={name}())`"
        )


def start_is_given(model: Model, variables: Sequence[Any]) -> bool:
    """Return whether a user gave values at which chains start for some of the value variables.

    They may be those of the model's initial point, so the point itself does not tell. A name such
    as "prior" is not a value: PyMC makes a value of it.

    `variables`: value variables of a step.
    """
    names = {str(model.values_to_rvs[each].name) for each in variables}
    initvals = (arguments_of_sample() or {}).get("initvals")
    of_chains = [initvals] if isinstance(initvals, Mapping) else [*(initvals or ())]
    for values in [model.rvs_to_initial_values, *filter(None, of_chains)]:
        for key, value in values.items():
            name = str(getattr(key, "name", key))
            name = get_untransformed_name(name) if is_transformed_name(name) else name
            if name in names and value is not None and not isinstance(value, str):
                return True
    return False


def check_seeded(name: str) -> None:
    """Refuse to sample without a seed."""
    arguments = arguments_of_sample()
    if arguments is not None and arguments.get("random_seed") is None:
        raise ValueError(
            f"{name}: checkpoint= needs a seed, as in pm.sample(random_seed=1): a run that "
            "goes on finds its chains by their seeds"
        )


def check_no_chain_runs(name: str) -> None:
    """Refuse to read changed data for another chain of a run: all chains must have the same."""
    if chains_are_running():
        raise ValueError(
            f"{name}: the model's data changed while pm.sample ran, as by a callback: chains that "
            "have begun are of the old data. Change data between two runs"
        )


def warn_of_recording(per_row: Mapping[str, int]) -> None:
    """Warn of Deterministic variables with a value for each row that are computed for each draw."""
    # PyMC computes those in var_names, or all of them. Bambi leaves out those that depend on rows.
    arguments = arguments_of_sample()
    if arguments is None:
        return
    wanted = arguments.get("var_names")
    names = [name for name in per_row if wanted is None or name in wanted]
    if names:
        n_rows = max(per_row[name] for name in names)
        is_ordered = any(name.endswith("_probs") for name in names)
        warn(
            f"the Deterministic variables {names} have a value for each of the {n_rows:,} rows: "
            "PyMC computes and stores them at each draw, a full pass over the data. Leave them "
            "out of the model, or of var_names in pm.sample, and use pm.compute_deterministics "
            "after sampling" + "; pm.OrderedLogistic has compute_p=False for that" * is_ordered
        )


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
