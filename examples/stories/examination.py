"""Who has passed, and which questions are no good? 1,500 persons, 30 questions: the Rasch model.

The answers are a table. An ability above one passes; a question is of no use if hardly anyone, or
nearly everyone, of average ability knows the answer.
"""

import arviz as az
import numpy as np
import pymc as pm

from pymc_flymc import FireflyMH, report

PASS, HARD = 1.0, 3.0


def read(n_persons: int = 1_500, n_items: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Make up the answers as they would be read from a file; return the true abilities, too."""
    rng = np.random.default_rng(5)
    ability, difficulty = rng.normal(0, 1.2, n_persons), rng.normal(0.3, 1.0, n_items)
    difficulty[:2] = 3.6, -3.8
    log_odds = ability[:, None] - difficulty
    return (rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(int), ability


def main() -> None:
    answers, truth = read()
    with pm.Model(coords={"person": np.arange(len(answers)), "item": np.arange(answers.shape[1])}):
        spread = pm.HalfNormal("spread", 2)
        ability = pm.Normal("ability", 0, spread, dims="person")
        difficulty = pm.Normal("difficulty", 0, 2, dims="item")
        log_odds = ability[:, None] - difficulty
        pm.Bernoulli("right", logit_p=log_odds, observed=answers)
        idata = pm.sample(2000, step=FireflyMH(), random_seed=1, progressbar=False)
    print(report(idata))
    print(az.summary(idata, var_names=["spread"], round_to=3))
    items = idata.posterior["difficulty"].mean(("chain", "draw")).to_numpy()
    print("questions to drop:", np.flatnonzero(np.abs(items) > HARD))
    chance = (idata.posterior["ability"] > PASS).mean(("chain", "draw")).to_numpy()
    sure = (chance > 0.9) | (chance < 0.1)
    right = np.mean((truth > PASS)[sure] == (chance > 0.5)[sure])
    print(f"{np.sum(chance > 0.9)} have passed, {np.sum(~sure)} are asked again")
    print(f"of those decided, {100 * right:.0f} % rightly")


if __name__ == "__main__":
    main()
