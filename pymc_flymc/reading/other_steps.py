"""Variables that `vars` leaves to other step methods, and the cost of these steps."""

from collections.abc import Sequence

from pymc.model.core import Model
from pymc.step_methods import BinaryGibbsMetropolis, CategoricalGibbsMetropolis
from pymc.step_methods.compound import Competence
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import warn

_GIBBS = (BinaryGibbsMetropolis, CategoricalGibbsMetropolis)


def warn_of_other_steps(model: Model, owned: Sequence[TensorVariable], n_rows: int) -> None:
    """Warn of variables to which PyMC would assign steps that evaluate the whole model."""
    # Metropolis steps do not: PyTensor cancels all terms of the difference of two log densities
    # that do not depend on their variables. PyMC assigns them to most discrete variables.
    left = [rv for rv in model.free_RVs if model.rvs_to_values[rv] not in owned]
    continuous = [str(rv.name) for rv in left if rv.type.dtype[:5] == "float"]
    gibbs = [
        str(rv.name)
        for rv in left
        if str(rv.name) not in continuous
        and any(step.competence(rv) is Competence.IDEAL for step in _GIBBS)
    ]
    if not continuous + gibbs:
        return
    steps = [
        f"{step} for {names}"
        for step, names in (("NUTS", continuous), ("a Gibbs step", gibbs))
        if names
    ]
    add = f"Add {continuous} to vars, or give" if continuous else "Give"
    warn(
        f"vars leaves out {continuous + gibbs}. If pm.sample is given no step for them, PyMC takes "
        f"{' and '.join(steps)}, of which each evaluation reads all {n_rows:,} rows. {add} "
        "pm.sample a pm.Metropolis step for them beside this one: it evaluates only what depends "
        "on its variables"
    )
