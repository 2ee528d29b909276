"""Hurdle models: whether values are above zero, and the values above zero, separately.

psi is the probability of a value above zero. The likelihood of a zero is 1 - psi. The likelihood of
any other value is psi times its density given that it is above zero, which does not depend on psi.
So an observed variable is read as two: whether values are above zero, for all rows, and the values
above zero, for their rows.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_flymc.graphs.tools import weighted_sum
from pymc_flymc.likelihoods.value_checks import check_values
from pymc_flymc.reading.observed_rows import Observation, ObservedRows, check_variables


def read_hurdle(observation: Observation) -> ObservedRows:
    """Read an observed variable with a hurdle; refuse negative values, and values all zero."""
    observed, name, psi = observation.values, observation.name, observation.psi
    assert psi is not None
    check_values(observed >= 0, observed, name, "zero or more")
    above = observed > 0
    if not above.any():
        raise ValueError(f"all values of {name!r} are zero: no row says what is beyond the hurdle")
    # Zeros become one, possible above any hurdle; after the check their rows are left out.
    filled = np.where(above, observed, 1)
    values = pt.as_tensor(filled.astype(observation.inner.dtype))
    parameters = observation.parameters(observation.inner, values)
    above = above.reshape(-1)
    part, rest = observation.regress(parameters, filled.reshape(-1), above)
    terms = None if parameters.rest is None else above * parameters.rest
    if psi.ndim:
        zeros = pm.Bernoulli.dist(p=psi)
        zeros.name = f"{name} > 0"
        whether, _ = observation.regress(observation.parameters(zeros), above, name=zeros.name)
        return observation.result([part, whether], rest, terms)
    (psi,) = observation.model.replace_rvs_by_values([psi])
    check_variables(observation.model, observation.owned, [psi], name)
    logs = pt.log(psi), pt.log1p(-psi)
    of_values = pt.switch(above, *logs)
    # All zeros have the same term, and so have all other values: only sums of weights are needed.
    weights = np.ones(len(above)) if observation.weights is None else observation.weights
    counts = np.array([weights[above].sum(), weights[~above].sum()])
    # Without zeros psi may be one, but not more.
    rest = rest + weighted_sum(counts, pt.stack(logs))
    return observation.result([part], rest, of_values + (0.0 if terms is None else terms))
