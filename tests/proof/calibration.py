"""Calibration by simulation, through ``pm.sample``: mode, choice, tuning and all.

Parameters are drawn from the prior, data from the likelihood, and the model is sampled as users
sample it. The rank of the parameters among their posterior draws is uniform (Talts et al. 2018),
and so is that of the log-likelihood, which sees errors that parameters' own ranks do not
(Modrák et al. 2023).
"""

import warnings

import numpy as np
import pymc as pm
import pytensor
from pymc.model.transform.conditioning import remove_value_transforms
from scipy import stats

from tests.proof.calibrated import MODELS, Calibrated
from tests.proof.sequential import Verdict, test_in_stages
from tests.support.patches import any_size

__all__ = ["Calibration", "test_model"]

#: Draws among which ranks are, how many draws one of them is taken of, and draws of tuning.
KEPT, THIN, TUNE = 19, 50, 500


class Calibration:
    """A model, its prior, and ranks of prior draws among posterior ones.

    Parameters
    ----------
    model : Calibrated
    rng : Generator
    """

    def __init__(self, model: Calibrated, rng: np.random.Generator) -> None:
        self.model, self.rng = model, rng
        with pm.Model() as self._prior:
            model.write()
        untransformed = remove_value_transforms(self._prior)
        outcomes = [untransformed[name] for name in model.outcomes]
        self._log_likelihood = untransformed.compile_logp(vars=outcomes)
        self._names = [rv.name for rv in self._prior.free_RVs if rv.name not in model.outcomes]

    def ranks(self, n: int) -> np.ndarray:
        """Return n ranks of each quantity, as numbers that are uniform in (0, 1)."""
        names = [*self._names, *self.model.outcomes]
        drawn = pm.draw([self._prior[name] for name in names], n, random_seed=self._seed())
        found = []
        for values in zip(*drawn, strict=True):
            truth = dict(zip(names, values, strict=True))
            posterior = self.sample({name: truth[name] for name in self.model.outcomes})
            true = self._quantities(truth)
            draws = [self._quantities(truth | each) for each in posterior]
            below = np.sum(np.array(draws) < true, axis=0)
            found.append((below + self.rng.random(len(true))) / (KEPT + 1))
        return np.array(found)

    def sample(self, outcomes: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """Return posterior draws of the model of some data."""
        with pm.Model(), any_size(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of short runs
            self.model.write(**outcomes)
            idata = pm.sample(
                draws=KEPT * THIN,
                tune=TUNE,
                chains=1,
                step=self.model.step(),
                random_seed=self._seed(),
                progressbar=False,
                compute_convergence_checks=False,
            )
        draws = {name: idata.posterior[name].values[0, THIN - 1 :: THIN] for name in self._names}
        return [{name: each[i] for name, each in draws.items()} for i in range(KEPT)]

    def _seed(self) -> int:
        # Of a generator PyMC would take a copy, and spawn the same random numbers each time.
        return int(self.rng.integers(2**31))

    def _quantities(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return up to three numbers of each parameter, and the log-likelihood."""
        parameters = [np.ravel(values[name])[:3] for name in self._names]
        return np.concatenate([*parameters, [self._log_likelihood(values)]])


def test_model(name: str, seed: int, n: int, alarm: float) -> Verdict:
    """Test a model with n data sets, at first."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        model = Calibration(MODELS[name], np.random.default_rng([seed, len(name), *name.encode()]))

        def p_values(n: int) -> np.ndarray:
            ranks = model.ranks(n).T
            # The second finds posteriors that are too wide or too narrow.
            where = [stats.kstest(u, "uniform").pvalue for u in ranks]
            width = [stats.kstest(np.abs(2.0 * u - 1.0), "uniform").pvalue for u in ranks]
            return np.array([*where, *width])

        return test_in_stages(p_values, n, alarm)


test_model.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's
