"""Which offer for which customer? 80,000 customers chose among three plans, or none.

Softmax regression; each customer is then sent the offer of the largest expected margin.
"""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pymc_flymc import FireflyMH

PLANS = ["none", "basic", "family", "pro"]
#: Euros a month, for each plan.
MARGIN = np.array([0.0, 4.0, 7.0, 15.0])


def read(n_rows: int = 80_000) -> pd.DataFrame:
    """Make up the customers as they would be read from a database."""
    rng = np.random.default_rng(3)
    customers = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n_rows),
            "income": np.exp(rng.normal(10.3, 0.6, n_rows)),
            "children": rng.poisson(0.8, n_rows),
        }
    )
    utility = rng.gumbel([0.0, 0.5, -1.5, -1.5], size=(n_rows, 4))
    utility[:, 2] += 0.9 * customers["children"]
    utility[:, 3] += 1.1 * (np.log(customers["income"]) - 10.3)
    utility[:, 1:] -= 0.02 * (customers[["age"]].to_numpy() - 50)
    return customers.assign(plan=pd.Categorical.from_codes(utility.argmax(axis=1), PLANS))


def design(customers: pd.DataFrame) -> np.ndarray:
    """Return numbers of a customer, the first of them one."""
    age, income = (customers["age"] - 50) / 20, np.log(customers["income"]) - 10.3
    return np.column_stack([np.ones(len(customers)), age, income, customers["children"]])


def main() -> None:
    customers = read()
    X = design(customers)
    with pm.Model(coords={"column": ["one", "age", "income", "children"], "plan": PLANS[1:]}):
        beta = pm.Normal("beta", 0, 2, dims=("column", "plan"))
        utility = pm.math.concatenate([np.zeros((len(X), 1)), X @ beta], axis=1)
        pm.Categorical("choice", logit_p=utility, observed=customers["plan"].cat.codes)
        idata = pm.sample(step=FireflyMH(), random_seed=1, progressbar=False)
    print(az.summary(idata, round_to=2))
    new = pd.DataFrame({"age": [25, 40, 55], "income": [2e4, 4e4, 1.5e5], "children": [0, 3, 1]})
    draws = az.extract(idata).transpose("sample", "column", "plan").to_numpy()
    odds = np.exp(np.pad(design(new) @ draws, [(0, 0), (0, 0), (1, 0)]))
    income = MARGIN * odds / odds.sum(axis=2, keepdims=True)
    for who, each in enumerate(income.mean(axis=0)):
        print(new.loc[who].to_dict(), "->", PLANS[each.argmax()], each.round(2))


if __name__ == "__main__":
    main()
