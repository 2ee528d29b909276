"""Sample combinations and compare them, in processes that may die."""

import dataclasses
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytensor

from pymc_flymc import UnsupportedModelError
from pymc_flymc.reporting import log
from pymc_flymc.sampling.proposal_weights import HEAVY
from tests.sweep.combinations import Combination, combinations_of
from tests.sweep.comparison import compare
from tests.sweep.models import MODELS, TinyModel
from tests.sweep.reference import Posterior, posterior_of
from tests.sweep.sampling import sample

__all__ = [
    "Effort",
    "journal_of",
    "read_results",
    "run_combination",
    "run_models",
    "run_processes",
]

#: How many times more transitions there are where a chain crosses into the tails too rarely, and
#: where a score is suspicious: of tails that a chain enters seldom, and stays in for long, short
#: runs know too little. Errors of a sampler stand out the more, the longer it runs.
LONGER, LONGEST = 4, 16
#: Scores that are looked at again.
SUSPICIOUS = 4.0
#: Seconds between looks at the processes.
LOOK = 0.2


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long a combination is sampled.

    Attributes
    ----------
    tune, draws : int
        Draws of each of two chains, while tuning and after.
    transitions : int
        The most transitions of each chain after tuning.
    share : float
        Share of the combinations that are run: always the same ones.
    pattern : str
        Regular expression that is found in the names of those that are run.
    tails : bool
        Whether chains are made longer until their tails tell something.
    """

    tune: int = 500
    draws: int = 200_000
    transitions: int = 1_000_000
    share: float = 1.0
    pattern: str = ""
    tails: bool = True

    def includes(self, combination: Combination) -> bool:
        """Whether a combination is among the share."""
        return combination.seed < self.share * 2**32 and bool(
            re.search(self.pattern, combination.name)
        )


def run_combination(
    combination: Combination, posterior: Posterior, effort: Effort
) -> dict[str, Any]:
    """Return the scores of one combination, as numbers that JSON can hold."""
    began = time.process_time()
    result: dict[str, Any] = {"combination": combination.name}
    model = combination.model
    with model.patches():
        try:
            with warnings_of_steps() as said:
                step = combination.step()
        except (UnsupportedModelError, ValueError) as error:
            return result | {"refused": str(error).splitlines()[0]}
        result["warns"] = any(HEAVY in line for line in said)
        result["bounds"] = [type(bound).__name__ for bound in step.bounds]
        names = [v.name for v in model.whole.value_vars]
        assert [v.name for v in step.vars] == names, "another order of variables"
        start = model.sampled.initial_point()
        sizes = effort.tune, effort.draws, effort.transitions
        for longer in (1, LONGER, LONGEST):
            draws = sample(step, start, combination.seed, *sizes, longer)
            found = compare(draws, posterior)
            good = all(abs(z) < SUSPICIOUS for z in found.z.values())
            enough = found.is_telling if effort.tails else found.long
            if good and (enough or longer >= LONGER):
                break
    return result | {
        "kernel": getattr(step.target, "kernel", "blocks"),
        "draws": draws.shape[0] * draws.shape[1],
        "telling": found.is_telling,
        **dataclasses.asdict(found),
        "seconds": round(time.process_time() - began, 1),
    }


@contextmanager
def warnings_of_steps() -> Iterator[list[str]]:
    """Collect the lines that steps log as warnings."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log.logger.addHandler(handler)
    try:
        yield said
    finally:
        log.logger.removeHandler(handler)


def run_models(
    names: Sequence[str],
    effort: Effort,
    journal: Path,
    known: Sequence[dict[str, Any]] = (),
) -> None:
    """Run the combinations of models that have no result yet, writing down what is under way."""
    pytensor.config.mode = "FAST_COMPILE"  # PyMC's own functions; those of steps are native
    done = {each["combination"] for each in [*known, *read_results([journal])]}

    def write(line: dict[str, Any]) -> None:
        with journal.open("a") as file:
            # What stands before it may have been cut off.
            file.write("\n" + json.dumps(line))

    for name in names:
        if name not in done:
            write({"started": name})
            _run_model(MODELS[name], effort, done, write)


def _run_model(
    model: TinyModel, effort: Effort, done: Collection[str], write: Callable[[Any], None]
) -> None:
    posterior: Posterior | None = None
    try:
        combinations = list(combinations_of(model))
    except UnsupportedModelError as error:
        write({"combination": model.name, "refused": str(error).splitlines()[0]})
        return
    for combination in combinations:
        if combination.name in done or not effort.includes(combination):
            continue
        write({"started": combination.name})
        try:
            if posterior is None:
                posterior = posterior_of(model.whole)
            write(run_combination(combination, posterior, effort))
        except Exception as error:
            write({"combination": combination.name, "error": f"{type(error).__name__}: {error}"})


def run_processes(
    groups: Sequence[str],
    options: Sequence[str],
    folder: Path,
    jobs: int,
    until: float,
    patience: float,
) -> None:
    """Run groups of models in processes of their own.

    A combination whose process dies or hangs is noted, and a new process goes on behind it.

    Parameters
    ----------
    groups : sequence of str
        Names of entries, of which the models in all forms are a group.
    options : sequence of str
        Of the command, for its processes.
    folder : Path
        Where results are written, and nowhere else.
    jobs : int
        Processes at a time.
    until : float
        Time, as of ``time.monotonic``, at which all are ended.
    patience : float
        Seconds after which a process that has written nothing hangs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting, running = list(groups), {}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    while (waiting or running) and time.monotonic() < until:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            command = [sys.executable, "-m", "tests.sweep", "--only", name, "--out", str(folder)]
            with (folder / f"{name}.log").open("a") as log:
                process = subprocess.Popen(
                    [*command, *options], stdout=log, stderr=log, env=environment
                )
            running[name] = process, time.monotonic()
            print(f"{name}, {len(waiting)} waiting", flush=True)
        time.sleep(LOOK)
        for name, (process, began) in list(running.items()):
            code, journal = process.poll(), journal_of(folder, name)
            if code is None:
                age = time.time() - journal.stat().st_mtime if journal.exists() else 0.0
                if min(age, time.monotonic() - began) < patience:
                    continue
                process.kill()
                process.wait()
                code = f"no result for {patience:.0f} seconds"
            del running[name]
            if code != 0 and _note_end(journal, code):
                waiting.append(name)
    for process, _ in running.values():
        process.kill()


def _note_end(journal: Path, code: Any) -> bool:
    """Write down what a process was at when it died; whether there may be more to run."""
    lines = _lines(journal)
    if not lines or "started" not in lines[-1]:
        return False
    at = lines[-1]["started"]
    with journal.open("a") as file:
        file.write("\n" + json.dumps({"combination": at, "error": f"the process died: {code}"}))
    return True


def read_results(journals: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the results in journals, the last of each combination."""
    found = {}
    for journal in journals:
        for line in _lines(journal):
            if "combination" in line:
                found[line["combination"]] = line
    return list(found.values())


def _lines(journal: Path) -> list[dict[str, Any]]:
    found = []
    for line in journal.read_text().splitlines() if journal.exists() else []:
        with suppress(json.JSONDecodeError):  # blank, or cut off
            found.append(json.loads(line))
    return found


def journal_of(folder: Path, group: str) -> Path:
    """Return the file for the results of a group of models."""
    return folder / f"{group}.jsonl"
