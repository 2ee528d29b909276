"""``python -m tests.proof``: print a table of what was proved, and of what failed.

Two parts: exact draws that stay exact, for combinations of family, form, bound and kernel from the
registries of the package, chosen by a seed; and ten million transitions of each kernel against
drift. An exact package fails with a probability of at most `ALARM`, in all.
"""

import argparse
import sys
import time
import zlib
from collections.abc import Iterator

import numpy as np
import pytensor

from tests.proof.drift import largest_drift
from tests.proof.equilibrium import test_combination
from tests.sweep.combinations import Combination, combinations_of
from tests.sweep.models import MODELS
from tests.sweep.reference import posterior_of

#: Probability that an exact package fails anywhere.
ALARM = 0.01
#: Chains of each combination, at first.
CHAINS = 2000
#: Rounding errors that may add up: of sums of some hundred numbers.
DRIFT = 1e-10


def _chosen(seed: int) -> Iterator[Combination]:
    """Yield all combinations in an order of the seed's own, model by model."""
    order = sorted(MODELS, key=lambda name: zlib.crc32(f"{seed} {name}".encode()))
    for name in order:
        if MODELS[name].form.elsewhere:
            continue  # batches of proposals have no chain that begins where it is told to
        every = list(combinations_of(MODELS[name]))
        every.sort(key=lambda each: zlib.crc32(f"{seed} {each.name}".encode()))
        yield from every[:3]


def exact_draws(seed: int, minutes: float, most: int) -> list[list[str]]:
    """Return rows of the table on combinations, as many as there is time for."""
    until, rows, alarm = time.monotonic() + 60.0 * minutes, [], ALARM / most
    posteriors: dict[str, object] = {}
    for combination in _chosen(seed):
        if time.monotonic() > until or len(rows) == most:
            break
        name = combination.model.name
        try:
            if name not in posteriors:
                posteriors = {name: posterior_of(combination.model.whole)}
            found = test_combination(combination, posteriors[name], CHAINS, alarm)
        except ValueError as error:  # no quadrature
            found = str(error)
        if isinstance(found, str):
            row = [combination.name, "refused", found[:60]]
        else:
            verdict = "FAILED" if found.failed else "exact"
            smallest = f"{found.p_values.min():.2g} of {len(found.p_values)}"
            row = [combination.name, verdict, f"p = {smallest}, {found.draws} chains"]
        rows.append(row)
        print("  ".join(row), flush=True)
    return rows


def drift(transitions: int) -> list[list[str]]:
    """Return rows of the table on what is kept, by kernel."""
    rows = []
    for name, rest in {
        "poisson/plain": ["Taylor/joint", "Taylor/surrogate", "Taylor/metropolis", "Taylor/hmc"],
        "bernoulli-logit/plain": ["JaakkolaJordan/slice-random", "JaakkolaJordan/mala"],
        "student-t/nuisance": ["Tangent/hmc"],
        "bernoulli-logit/several": ["JaakkolaJordan/metropolis"],
    }.items():
        every = {each.name: each for each in combinations_of(MODELS[name])}
        for each in rest:
            combination, rng = every[f"{name}/{each}"], np.random.default_rng(0)
            with combination.model.patches():
                step = combination.step()
                step.setup_chain(rng, 0, 1)
                step.step(combination.model.sampled.initial_point())
                worst = largest_drift(step.chain, rng, transitions)
            verdict = "FAILED" if worst > DRIFT else "no drift"
            rows.append([combination.name, verdict, f"{worst:.1e} after {transitions:.0e}"])
            print("  ".join(rows[-1]), flush=True)
    return rows


def main() -> int:
    """Run the command; return whether anything failed."""
    parser = argparse.ArgumentParser("tests.proof", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="by default one of its own choice")
    parser.add_argument("--minutes", type=float, default=30.0, help="for combinations")
    parser.add_argument("--most", type=int, default=400, help="combinations")
    parser.add_argument("--transitions", type=int, default=10_000_000, help="of each kernel")
    given = parser.parse_args()
    pytensor.config.mode = "FAST_COMPILE"  # PyMC's own functions; those of steps are native
    seed = given.seed if given.seed is not None else int(np.random.SeedSequence().entropy % 2**31)
    print(f"seed {seed}", flush=True)
    rows = exact_draws(seed, given.minutes, given.most) if given.most else []
    rows += drift(given.transitions) if given.transitions else []
    head = [["what", "verdict", "p-values or differences"], ["---"] * 3]
    print("\n".join("| " + " | ".join(row) + " |" for row in [*head, *rows]))
    failed = [row[0] for row in rows if row[1] == "FAILED"]
    print(f"\nseed {seed}: {len(rows)} in all, failed: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
