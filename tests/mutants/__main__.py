"""``python -m tests.mutants``: print all mutants by module; with ``--run`` whether each is caught.

Mutants that are run are applied to copies of the package, one after the other, by as many
processes as ``--jobs`` says. Exits with 1 if one survives.
"""

import argparse
import re
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from queue import Empty, SimpleQueue

from tests.enumeration.running import Server
from tests.mutants.mutant import Mutant, copy_package
from tests.mutants.table import MUTANTS


def markdown(mutants: dict[str, Mutant], verdicts: dict[str, str]) -> str:
    """Return the table of mutants, with verdicts if there are any."""
    head = ["module", "mutant", "check", *(["verdict"] if verdicts else [])]
    lines = [head, ["---"] * len(head)]
    for key, mutant in mutants.items():
        verdict = [verdicts[key]] if verdicts else []
        lines.append([mutant.file, mutant.name, mutant.check.removeprefix("tests/"), *verdict])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def overview(mutants: dict[str, Mutant]) -> str:
    """Return a table of modules: mutants, and how many of them are enumerated."""
    every = Counter(mutant.file for mutant in mutants.values())
    enumerated = Counter(m.file for m in mutants.values() if m.is_enumerated)
    lines = ["| module | mutants | of these by enumeration |", "| --- | --- | --- |"]
    lines += [f"| `{file}` | {n} | {enumerated[file]} |" for file, n in sorted(every.items())]
    return "\n".join([*lines, f"| in all | {every.total()} | {enumerated.total()} |"])


def run(mutants: dict[str, Mutant], jobs: int) -> dict[str, str]:
    """Return the verdicts on mutants."""
    verdicts: dict[str, str] = {}
    for native in (False, True):
        waiting: SimpleQueue[str] = SimpleQueue()
        for key, mutant in mutants.items():
            if mutant.is_enumerated != native:
                waiting.put(key)
        if waiting.empty():
            continue
        with tempfile.TemporaryDirectory() as place:
            package = copy_package(Path(place))
            arguments = mutants, waiting, package, native, verdicts
            threads = [threading.Thread(target=_work, args=arguments) for _ in range(jobs)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return verdicts


def _work(
    mutants: dict[str, Mutant],
    waiting: "SimpleQueue[str]",
    package: Path,
    native: bool,
    verdicts: dict[str, str],
) -> None:
    with Server(native) as server:
        while True:
            try:
                key = waiting.get_nowait()
            except Empty:
                return
            with tempfile.TemporaryDirectory() as folder:
                mutants[key].apply(package, Path(folder))
                caught, printed = mutants[key].is_caught(server, Path(folder))
            verdicts[key] = "caught" if caught else "SURVIVES"
            print(f"{verdicts[key]}: {key}", flush=True)
            if not caught:
                print(printed[-3000:], flush=True)


def main() -> int:
    """Run the command; return whether any mutant survives."""
    parser = argparse.ArgumentParser("tests.mutants", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the check of each")
    parser.add_argument("--pattern", default="", help="found in their names: module: mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--enumerated", action="store_true", help="those caught by enumeration")
    kinds.add_argument("--native", action="store_true", help="the others")
    given = parser.parse_args()
    chosen = {
        key: mutant
        for key, mutant in MUTANTS.items()
        if re.search(given.pattern, key)
        and (mutant.is_enumerated or not given.enumerated)
        and not (mutant.is_enumerated and given.native)
    }
    verdicts = run(chosen, given.jobs) if given.run else {}
    print(markdown(chosen, verdicts), overview(chosen), sep="\n\n")
    survivors = [key for key, verdict in verdicts.items() if verdict != "caught"]
    print("\nsurvivors:", ", ".join(survivors) or "none" if verdicts else "none was run")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
