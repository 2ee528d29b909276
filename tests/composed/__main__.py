"""``python -m tests.composed``: compare models that are put together at random with NUTS.

Prints a row for each. Exits with 1 if one of them differs by more than chance. With ``--local`` all
have one grouping factor, and are sampled by local sweeps.
"""

import argparse
import sys
import time

from scipy import stats

from tests.composed.comparison import Verdict, compare, compare_local
from tests.composed.predictors import RARE
from tests.support.comparison import FALSE_ALARMS


def is_wrong(verdict: Verdict, n_models: int) -> bool:
    """Return whether a score is one that exact samplers have in one of a hundred such runs."""
    n_numbers = n_models * max(verdict.n_numbers, 1)
    return verdict.score > stats.norm.isf(0.5 * FALSE_ALARMS / n_numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="seed of the first model")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin none after this time")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--rare", choices=RARE, help="a term that models have beside others")
    kinds.add_argument("--local", action="store_true", help="models for local sweeps, by these")
    options = parser.parse_args()
    end, wrong = time.monotonic() + 60.0 * options.minutes, 0
    for seed in range(options.first, options.first + options.models):
        if time.monotonic() > end:
            break
        verdict = compare_local(seed) if options.local else compare(seed, options.rare)
        wrong += is_wrong(verdict, options.models)
        print(f"| {seed} {verdict}", flush=True)
    print(f"\nbeyond chance: {wrong}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
