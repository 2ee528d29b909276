"""Does a subsidy raise wages? 30,000 small studies, each with a standard error of its own.

A meta-regression: the error of a row is the root of the squares of its known standard error and of
a spread between studies, which is unknown. Who ignores the spread trusts the large studies too
much.
"""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pymc_flymc import FireflyMH

WORTHWHILE = 0.02


def read(n_rows: int = 30_000) -> pd.DataFrame:
    """Make up the studies as they would be read from a file."""
    rng = np.random.default_rng(2)
    studies = pd.DataFrame(
        {
            "people": rng.integers(20, 5_000, n_rows),
            "year": rng.integers(1995, 2024, n_rows),
            "urban": rng.random(n_rows) < 0.6,
            "randomised": rng.random(n_rows) < 0.25,
        }
    )
    effect = 0.03 - 0.02 * studies["randomised"] + 0.015 * studies["urban"]
    error = 0.9 / np.sqrt(studies["people"])
    return studies.assign(effect=rng.normal(effect, np.sqrt(error**2 + 0.05**2)), error=error)


def main() -> None:
    studies = read()
    X = studies[["urban", "randomised"]].astype(float)
    X["decade"] = (studies["year"] - 2010) / 10
    with pm.Model(coords={"column": list(X)}):
        alpha = pm.Normal("alpha", 0, 0.5)
        beta = pm.Normal("beta", 0, 0.5, dims="column")
        spread = pm.HalfNormal("spread", 0.5)
        error = pm.math.sqrt(studies["error"].to_numpy() ** 2 + spread**2)
        mu = alpha + X.to_numpy() @ beta
        pm.Normal("effect", mu, error, observed=studies["effect"])
        idata = pm.sample(step=FireflyMH(), random_seed=1, progressbar=False)
    print(az.summary(idata, round_to=4))
    draws = az.extract(idata)
    causal = draws["alpha"] + draws["beta"].sel(column="randomised")
    effects = {"the country": causal, "the city": causal + draws["beta"].sel(column="urban")}
    for place, effect in effects.items():
        chance = float((effect > WORTHWHILE).mean())
        verdict = "pay" if chance > 0.9 else "do not pay"
        print(f"in {place}: {float(effect.mean()):.3f}, {verdict} (chance {chance:.2f})")


if __name__ == "__main__":
    main()
