"""Steps, built and driven."""

import numpy as np
import pymc as pm

from pymc_flymc import (
    ExplicitResampling,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
)
from pymc_flymc.reporting import TIMES
from tests.support.models import logistic_model

SCHEMES = {
    "implicit-by-row": ImplicitResampling(),
    "implicit-single-q": ImplicitResampling(q=0.1),
    "with-replacement": ExplicitResampling(fraction=0.1, scheme="with_replacement"),
    "without-replacement": ExplicitResampling(fraction=0.1, scheme="without_replacement"),
    "cycle": ExplicitResampling(fraction=0.1, scheme="cycle"),
}
#: Statistics of `FireflyMH`.
STATS = {
    "n_bright": np.int64,
    "likelihood_queries": np.int64,
    "acceptance_probability": np.float64,
    "random_walk_scale": np.float64,
    "pcn_scale": np.float64,
    "leapfrog_step_size": np.float64,
    "n_leapfrog_steps": np.int64,
    "local_sweeps": np.int64,
    "transitions": np.int64,
    "n_rows": np.int64,
    "anchor_moved": np.bool_,
    "moved": np.bool_,
    "distance": np.float64,
    "log_weight": np.float64,
    "rescaling_acceptance_probability": np.float64,
    **dict.fromkeys(TIMES, np.float64),
    "bound_violations": np.int64,
    "non_finite_ratios": np.int64,
}


def step_of(model, cls=FireflyMH, **settings):
    """Step on a model."""
    with model:
        return cls(**settings)


def begin(step, model, tune=300, seed=0):
    """Start a chain, in tuning, and return its first point."""
    step.setup_chain(np.random.default_rng(seed), tune, 100)
    step.tune = True
    return model.initial_point()


def advance(step, point, n):
    """Return the last point, and all draws with statistics that are no times, shape (n, ...)."""
    out = []
    for _ in range(n):
        point, [stats] = step.step(point)
        assert stats.pop("warning") is None
        kept = [value for name, value in stats.items() if name not in TIMES]
        out.append((*np.concatenate([np.ravel(v) for v in point.values()]), *kept))
    return point, np.array(out)


def drive(step, point, *, tune, draws, chains=1, seed=0):
    """Drive a step as ``pm.sample`` does, without its overhead of 100 microseconds a draw.

    Returns
    -------
    draws : ndarray, shape (chains, draws, D)
        All variables of the points, raveled in the order of the point.
    stats : dict of ndarray, shape (chains, draws)
    """
    values, stats = [], []
    initial = step.sampling_state
    for rng in np.random.default_rng(seed).spawn(chains):
        step.sampling_state = initial
        step.setup_chain(rng, tune, draws)
        step.tune = bool(tune)
        here = point
        for i in range(tune + draws):
            if i == tune:
                step.stop_tuning()
            here, [stat] = step.step(here)
            if i >= tune:
                values.append(np.concatenate([np.ravel(value) for value in here.values()]))
                stats.append({key: value for key, value in stat.items() if key not in TIMES})
    shaped = {key: np.reshape([s[key] for s in stats], (chains, draws)) for key in stats[0]}
    return np.reshape(values, (chains, draws, -1)), shaped


def sample(model, step, **settings):
    """Sample two short chains with ``pm.sample``, in one process."""
    defaults = dict(tune=60, draws=80, chains=2, cores=1, random_seed=11, progressbar=False)
    options = defaults | dict(compute_convergence_checks=False) | settings
    with model:
        return pm.sample(step=step, **options)


def identical(a, b):
    """Check that two samples have the same draws and statistics."""
    for group in ("posterior", "sample_stats"):
        for name, values in a[group].data_vars.items():
            if name not in TIMES:
                np.testing.assert_array_equal(values.values, b[group][name].values, err_msg=name)


STEPS = {
    "hmc": (FireflyHMC, {}),
    "hmc-diagonal": (FireflyHMC, {"metric": "diagonal"}),
    "mala": (FireflyMALA, {}),
    "slice": (FireflySlice, {}),
    "slice-random": (FireflySlice, {"direction": "random"}),
}


def step_of_kind(kind, model, **settings):
    """Step of one of `STEPS` on a model."""
    cls, defaults = STEPS[kind]
    return step_of(model, cls, **defaults | settings)


def logistic_step(X, y, prior_sd=1.0, **settings):
    """Return a logistic regression and a step on it."""
    model = logistic_model(X, y, prior_sd)
    return model, step_of(model, **settings)
