"""Which clinics are to be visited? Times until a relapse of 40,000 patients in 120 clinics.

A Weibull model with a frailty of each clinic, and right-censoring at the end of the study.
"""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pymc_flymc import FireflyMH

N_CLINICS = 120


def read(n_rows: int = 40_000) -> tuple[pd.DataFrame, np.ndarray]:
    """Make up the patients as they would be read from a file; return the true frailties, too."""
    rng = np.random.default_rng(6)
    frailty = rng.normal(0, 0.3, N_CLINICS)
    patients = pd.DataFrame(
        {
            "clinic": rng.integers(N_CLINICS, size=n_rows),
            "age": rng.integers(30, 85, n_rows),
            "treated": rng.random(n_rows) < 0.5,
        }
    )
    log_scale = 1.2 - 0.02 * (patients["age"] - 55) + 0.4 * patients["treated"]
    time = np.exp(log_scale - frailty[patients["clinic"]]) * rng.weibull(1.3, n_rows)
    end = rng.uniform(2, 6, n_rows)
    return patients.assign(time=np.minimum(time, end), end=end), frailty


def main() -> None:
    patients, truth = read()
    relapsed = patients["time"] < patients["end"]
    print(f"{100 * relapsed.mean():.0f} % have had a relapse")
    age, treated = (patients["age"].to_numpy() - 55) / 10, patients["treated"].to_numpy()
    with pm.Model():
        alpha, shape = pm.Normal("alpha", 0, 2), pm.HalfNormal("shape", 2)
        effect = pm.Normal("effect", 0, 1, shape=2)
        spread = pm.HalfNormal("spread", 1)
        frailty = pm.Normal("frailty", 0, spread, shape=N_CLINICS)
        log_scale = alpha + effect[0] * age + effect[1] * treated
        scale = pm.math.exp(log_scale - frailty[patients["clinic"].to_numpy()])
        time = pm.Weibull.dist(shape, scale)
        pm.Censored("time", time, lower=None, upper=patients["end"], observed=patients["time"])
        idata = pm.sample(step=FireflyMH(), random_seed=1, progressbar=False)
    print(az.summary(idata, var_names=["~frailty"], round_to=3))
    draws = az.extract(idata)["frailty"].transpose("sample", ...).to_numpy()
    worst = np.argsort(-draws.mean(axis=0))[:5]
    for clinic in worst:
        chance = (draws[:, clinic] > 0.3).mean()
        print(f"clinic {clinic}: {chance:.2f} that relapses come 30 % sooner")
    print("visit:", worst[:3], "- worst in truth:", np.argsort(-truth)[:3])


if __name__ == "__main__":
    main()
