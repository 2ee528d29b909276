"""A model from a formula, on 500,000 simulated rows: how customers choose among three plans.

Prints what was read, a summary of the posterior, and the predicted shares of two kinds of customer.
"""

from __future__ import annotations

import warnings

import arviz as az
import bambi as bmb
import numpy as np
import pandas as pd

from pymc_flymc import FireflyMH

N_ROWS = 500_000
PLANS = np.array(["basic", "family", "pro"])


def simulate(rng: np.random.Generator) -> pd.DataFrame:
    """Make up customers and the plans that they chose."""
    data = pd.DataFrame(
        {
            "income": rng.normal(size=N_ROWS),
            "children": rng.poisson(0.8, N_ROWS),
            "region": rng.choice(["north", "south", "west"], N_ROWS),
        }
    )
    utility = rng.gumbel(size=(N_ROWS, 3))
    utility[:, 1] += -1.0 + 0.7 * data["children"] + 0.1 * data["income"]
    utility[:, 2] += -0.5 + 0.8 * data["income"] + 0.3 * (data["region"] == "west")
    return data.assign(plan=PLANS[utility.argmax(axis=1)])


def main() -> None:
    rng = np.random.default_rng(1)
    model = bmb.Model("plan ~ income + children + region", simulate(rng), family="categorical")
    model.build()
    with model.backend.model, warnings.catch_warnings():
        # Bambi declares the probabilities of all rows, but leaves them out when it samples.
        warnings.filterwarnings("ignore", message="the Deterministic variables")
        step = FireflyMH()
    idata = model.fit(step=step, random_seed=1)
    print(az.summary(idata))
    print("rows read per draw:", idata.sample_stats["likelihood_queries"].mean().item())
    customers = pd.DataFrame({"income": [-1.0, 1.0], "children": [3, 0], "region": "west"})
    prediction = model.predict(idata, data=customers, inplace=False)
    shares = prediction.posterior["p"].mean(("chain", "draw")).to_numpy()
    print(pd.DataFrame(shares, columns=PLANS).join(customers).round(3))


if __name__ == "__main__":
    main()
