"""Who should be seeded first? 50,000 matches among 300 players, by Bradley and Terry.

The log odds of a win are the difference of two strengths, and those who play at home have more.
"""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pymc_flymc import FireflyMH

N_PLAYERS = 300


def read(n_rows: int = 50_000) -> tuple[pd.DataFrame, np.ndarray]:
    """Make up the matches as they would be read from a file; return the true strengths, too."""
    rng = np.random.default_rng(4)
    strength = rng.normal(0, 0.9, N_PLAYERS)
    home, away = rng.integers(N_PLAYERS, size=(2, n_rows))
    away = np.where(home == away, (away + 1) % N_PLAYERS, away)
    log_odds = strength[home] - strength[away] + 0.3
    won = rng.random(n_rows) < 1 / (1 + np.exp(-log_odds))
    return pd.DataFrame({"home": home, "away": away, "home_won": won}), strength


def main() -> None:
    matches, truth = read()
    home, away = matches["home"].to_numpy(), matches["away"].to_numpy()
    with pm.Model():
        advantage = pm.Normal("advantage", 0, 1)
        spread = pm.HalfNormal("spread", 1)
        strength = pm.Normal("strength", 0, spread, shape=N_PLAYERS)
        log_odds = advantage + strength[home] - strength[away]
        pm.Bernoulli("home_won", logit_p=log_odds, observed=matches["home_won"])
        idata = pm.sample(2000, step=FireflyMH(), random_seed=1, progressbar=False)
    print(az.summary(idata, var_names=["advantage", "spread"], round_to=3))
    draws = az.extract(idata)["strength"].transpose("sample", ...).to_numpy()
    ranks = (-draws).argsort(axis=1).argsort(axis=1)
    best = ranks.mean(axis=0).argsort()[:5]
    for player in best:
        first, eight = (ranks[:, player] == 0).mean(), (ranks[:, player] < 8).mean()
        print(f"player {player}: first {first:.2f}, among the best eight {eight:.2f}")
    print("seeded first:", best[0], "- best in truth:", int(truth.argmax()))


if __name__ == "__main__":
    main()
