"""Effects with heavy tails and few rows have an anchor with sds of a sensible size."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.anchor.mode_finding import ModeFinder
from pymc_flymc.steps.setup import read

#: Log densities that are flat or curve upwards somewhere, in the location or in a transform of it.
HEAVY = {
    "t": lambda mu, s, n: pm.StudentT("z", nu=4, mu=mu, sigma=s, shape=n),
    "cauchy": lambda mu, s, n: pm.Cauchy("z", mu, s, shape=n),
    "laplace": lambda mu, s, n: pm.Laplace("z", mu, s, shape=n),
}
LIGHT = {
    "normal": lambda mu, s, n: pm.Normal("z", mu, s, shape=n),
    "lognormal": lambda mu, s, n: pm.math.log(pm.LogNormal("z", mu, s, shape=n)),
    "gamma": lambda mu, s, n: pm.math.log(pm.Gamma("z", 1.0 / s, pm.math.exp(-mu) / s, shape=n)),
    "logistic": lambda mu, s, n: pm.Logistic("z", mu, s, shape=n),
    "multiplied": lambda mu, s, n: mu + s * pm.Normal("z", shape=n),
    "walk": lambda mu, s, n: (
        mu + pm.GaussianRandomWalk("z", 0.0, s, init_dist=pm.Normal.dist(), shape=n)
    ),
}


def counts(effects, n_groups):
    rng = np.random.default_rng(14)
    g = rng.integers(0, n_groups, 3 * n_groups)
    y = rng.poisson(np.exp(0.2 + 0.4 * rng.standard_t(4, n_groups)[g]))
    with pm.Model() as model:
        mu, scale = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("scale", 0.5)
        pm.Poisson("y", pm.math.exp(effects(mu, scale, n_groups)[g]), observed=y)
    return model


@pytest.mark.slow_cases("laplace")
@pytest.mark.parametrize(
    ("effects", "n_groups"),
    [*((each, 20) for each in HEAVY.values()), (HEAVY["t"], 400)],
    ids=[*HEAVY, "t-400"],
)
def test_sds_of_effects_are_not_those_of_a_vanishing_curvature(searches, effects, n_groups):
    # Without a least precision the sd of an effect at an inflection or a kink is 31,623, and the
    # logarithm of the scale of 400 Student t effects comes to -38.
    anchor = searches(counts(effects, n_groups))
    rng = np.random.default_rng(1)
    draws = np.array([anchor.geometry.spread(v) for v in rng.standard_normal((200, n_groups + 2))])
    sds, log_scale = draws.std(axis=0), anchor.theta[1]
    # The counts are simulated with a scale of 0.4, log(0.4) = -0.9; three rows a group leave a
    # factor of three. The sd of an effect is at most about the scale of its prior.
    assert -2.0 < log_scale < 0.0
    assert np.all((sds[2:] < 5.0 * np.exp(log_scale)) & (sds[2:] > 0.2 * np.exp(log_scale)))


@pytest.mark.parametrize(
    ("effects", "heavy"),
    [(each, True) for each in HEAVY.values()] + [(each, False) for each in LIGHT.values()],
    ids=[*HEAVY, *LIGHT],
)
def test_priors_with_heavy_tails_are_recognised(monkeypatch, effects, heavy):
    found = []

    class Stop(Exception):
        pass

    def stop(self, start):
        found.append(self._posterior.effects)
        raise Stop

    monkeypatch.setattr(ModeFinder, "find", stop)
    with pytest.raises(Stop):
        read(counts(effects, 20), None, None, None, "auto")
    assert len(found[-1].heavy_tailed) == (20 if heavy else 0)
