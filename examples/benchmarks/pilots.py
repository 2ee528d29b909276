"""What pilot runs find, and what the choice assumes: `python -m examples.benchmarks.pilots`.

Prints a Markdown table of all kernels that may sample each model: the least that an effective draw
may cost, in rows that are read in turn, and what a pilot run finds, over that. `USUAL` in
`pymc_flymc.sampling.candidates` is near the medians.
Costs are counted, with constants for what a row takes.

Chains are short: what they find of slow parameters is too little, as `examples.benchmarks.real`
shows. Without `--data` the models of simulated data are run alone.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.benchmarks.real_models import MODELS, SIMULATED
from pymc_flymc.sampling.adaptation import JOINT
from pymc_flymc.sampling.candidates import Candidate, Candidates
from pymc_flymc.sampling.pilot_runs import largest_cost, pilot_chain, pilot_joint_moves
from pymc_flymc.steps.setup import read


class Found(NamedTuple):
    """What a pilot run finds.

    Attributes
    ----------
    cost : float
        Of an effective draw, in rows that are read in turn.
    ended : bool
        Whether the run was long enough to tell.
    """

    cost: float
    ended: bool


def pilot(candidates: Candidates, candidate: Candidate) -> Found:
    """Run a candidate's pilot to its end, or to the most that it may cost."""
    sampler, costs = candidate.built(), candidates.costs
    limit = largest_cost(costs, candidates.problems)
    others = candidates.task.others
    if candidate.spec is JOINT:
        weighed = pilot_joint_moves(
            sampler.target, sampler.brightness, others, costs, limit, hopeless=np.inf
        )
        return Found(weighed.cost(costs), not weighed.weighed.heavy_tails)
    run = pilot_chain(sampler, others, costs, np.inf, limit)
    return Found(run.cost, run.ended)


def main() -> None:
    """Print the table, and the medians for each kernel."""
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.pilots")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--models", nargs="+", choices=MODELS, help="names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc.flymc").setLevel(logging.WARNING)
    over_least = defaultdict(list)
    print("| model | moves | least | found / least |\n|---|---|---:|---:|", flush=True)
    for name in options.models or (MODELS if options.data else SIMULATED):
        candidates = Candidates(read(MODELS[name](options.data), None, None, None, "auto"))
        for candidate in candidates.all():
            found = pilot(candidates, candidate)
            ratio, kernel = found.cost / candidate.least, candidate.spec.name
            if found.ended:
                over_least[kernel].append(ratio)
            mark = "" if found.ended else ", not ended"
            print(
                f"| {name} | {candidate.what}{mark} | {candidate.least:,.0f} | {ratio:.1f} |",
                flush=True,
            )
            candidate.sampler = None
    print("\n| kernel | runs | found / least |\n|---|---:|---:|")
    for kernel, ratios in over_least.items():
        print(f"| {kernel} | {len(ratios)} | {np.median(ratios):.2f} |")


if __name__ == "__main__":
    main()
