"""What each kernel costs, and what the choice takes: `python -m examples.benchmarks.choice`.

Prints a Markdown table of all kernels that may sample each model: what an effective draw usually
costs, as the choice assumes, and what it costs in a chain, both in rows that are read in turn.
Costs are counted, with constants for what a row takes, and not timed. The regret of a model is the
cost of the kernel that is chosen over that of the cheapest.

Without `--data` the models of simulated data are run alone, those of `simulated_models` among them.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from pathlib import Path

import arviz as az
import numpy as np

from examples.benchmarks.real_models import MODELS, SIMULATED
from examples.benchmarks.simulated_models import SMALL
from pymc_flymc.sampling.candidates import Candidates
from pymc_flymc.sampling.choice import select_sampler
from pymc_flymc.sampling.costs import GRADIENT, Costs
from pymc_flymc.sampling.diagnostics import evenly
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.steps.setup import read
from pymc_flymc.target.target import Target

#: Draws of a chain in tuning and after it, and the processor seconds after which it ends.
TUNING, DRAWS, SECONDS = 200, 500, 4.0
#: Draws after tuning with which a chain tells a cost, and parameters that are looked at.
ENOUGH, LOOKED_AT = 60, 40


def cost_of_queries(costs: Costs, target: Target, queries: float, gradients: float) -> float:
    """Return the cost of likelihood queries; gradients read a surrogate's exact rows in turn."""
    if not target.subsamples:
        return queries
    if not target.spec.fresh:
        return costs.bright * queries
    exact = target.data.exact
    in_turn = 0.0 if exact is None else min(queries, (1.0 + gradients) * len(exact.X))
    return in_turn + costs.drawn * (queries - in_turn)


def cost_in_chain(sampler: Sampler, others: np.ndarray, costs: Costs) -> float:
    """Return the cost of an effective draw; of a single draw, if the chain ends too early."""
    rng, adaptation = np.random.default_rng(1), sampler.adaptation
    chain, tuning = sampler.new_chain(), sampler.new_tuning(TUNING)
    tuning.fewest = adaptation.fewest
    chain.set_others(others)
    if not chain.start_dispersed(rng, 1.0):
        return np.inf
    adaptation.started(chain, rng, dispersed=True)
    chain.take_queries()
    adaptation.gradients(chain)
    draws: list[np.ndarray] = []
    cost: list[float] = []
    began = time.thread_time()
    while len(draws) < TUNING + DRAWS and time.thread_time() - began < SECONDS:
        chain.advance(rng, tuning.transitions, tuning.gain())
        gradients = adaptation.gradients(chain)
        rows = cost_of_queries(costs, sampler.target, chain.take_queries(), gradients)
        cost.append((tuning.transitions + GRADIENT * gradients) * costs.evaluation + rows)
        draws.append(chain.state.v.copy())
        if not tuning.is_over:
            chain, tuning = sampler.learn(chain, tuning, rng)
    kept = np.array(draws[TUNING:])
    if len(kept) < ENOUGH:
        return float(np.mean(cost[-ENOUGH:]))
    kept = kept[None, :, evenly(kept.shape[1], LOOKED_AT)]
    return float(np.sum(cost[TUNING:]) / np.min(az.ess(kept)))


def main() -> None:
    """Print the table, and the regrets."""
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.choice")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--models", nargs="+", choices=[*SMALL, *MODELS], help="names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc.flymc").setLevel(logging.WARNING)
    print(
        "| model | kernel | exact rows | usual | in a chain |\n|---|---|---:|---:|---:|", flush=True
    )
    regrets = {}
    for name in options.models or (*SMALL, *(MODELS if options.data else SIMULATED)):
        model = SMALL[name]() if name in SMALL else MODELS[name](options.data)
        task = read(model, None, None, None, "auto")
        candidates, found = Candidates(task), {}
        for each in candidates.all():
            sampler = each.sampler(task)
            kernel = "all rows" if each.reads_all else each.spec.name
            cost = cost_in_chain(sampler, task.others, candidates.costs)
            found[kernel, each.n_exact] = cost
            print(
                f"| {name} | {kernel} | {each.n_exact:,} | {each.usual:,.0f} | {cost:,.0f} |",
                flush=True,
            )
        target = select_sampler(task).target
        kernel = target.spec.name if target.subsamples else "all rows"
        regrets[name] = found[kernel, target.n_exact] / min(found.values())
    print("\n| model | regret |\n|---|---:|")
    for name, regret in regrets.items():
        print(f"| {name} | {regret:.2f} |")


if __name__ == "__main__":
    main()
