"""Which wells have too much arsenic? Half of the measurements are below the limit of detection.

Three laboratories with limits of their own measured 60,000 samples: what is below comes as the
limit itself. Tobit regression of the logarithm of the concentration; wells are to be closed where
the median concentration is above 10 micrograms a litre.
"""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pymc_flymc import FireflyMH

GUIDELINE = 10.0
LIMITS = {"north": 0.5, "city": 1.0, "private": 2.0}


def read(n_rows: int = 60_000) -> pd.DataFrame:
    """Make up the samples as they would be read from a file."""
    rng = np.random.default_rng(1)
    samples = pd.DataFrame(
        {
            "laboratory": rng.choice(list(LIMITS), n_rows),
            "depth": rng.gamma(2.0, 30.0, n_rows),
            "iron": np.exp(rng.normal(size=n_rows)),
            "delta": rng.random(n_rows) < 0.3,
        }
    )
    log_arsenic = 0.2 - 0.012 * samples["depth"] + 0.6 * np.log(samples["iron"])
    log_arsenic += 1.5 * samples["delta"] + 0.8 * rng.normal(size=n_rows)
    limit = samples["laboratory"].map(LIMITS)
    return samples.assign(limit=limit, arsenic=np.maximum(np.exp(log_arsenic), limit))


def main() -> None:
    samples = read()
    below = samples["arsenic"] == samples["limit"]
    print(f"{len(samples):,} samples, {100 * below.mean():.0f} % below the limit of detection")
    columns = {"depth": samples["depth"] / 100, "log_iron": np.log(samples["iron"])}
    X = pd.DataFrame(columns).assign(delta=samples["delta"].astype(float))
    with pm.Model(coords={"column": list(X)}):
        alpha = pm.Normal("alpha", 0, 3)
        beta = pm.Normal("beta", 0, 2, dims="column")
        sigma = pm.HalfNormal("sigma", 2)
        arsenic = pm.LogNormal.dist(alpha + X.to_numpy() @ beta, sigma)
        limit, observed = samples["limit"].to_numpy(), samples["arsenic"].to_numpy()
        pm.Censored("arsenic", arsenic, lower=limit, upper=None, observed=observed)
        idata = pm.sample(step=FireflyMH(), random_seed=1, progressbar=False)
    print(az.summary(idata, round_to=2))
    wells = pd.DataFrame({"depth": [0.2, 0.2, 1.5], "log_iron": 1.5, "delta": [1.0, 0.0, 1.0]})
    draws = az.extract(idata)
    median = np.exp(draws["alpha"].to_numpy() + wells.to_numpy() @ draws["beta"].to_numpy())
    chance = (median > GUIDELINE).mean(axis=1)
    print(wells.assign(chance=chance, close=chance > 0.5))


if __name__ == "__main__":
    main()
