"""Recording of a step's run and chains in its checkpoint, and their return from there."""

from typing import Any

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.checkpoint.files import RecordFormat
from pymc_flymc.checkpoint.folder import Checkpoint
from pymc_flymc.checkpoint.journal import Journal
from pymc_flymc.checkpoint.run_identity import identity_of_run, identity_of_target
from pymc_flymc.compat.pymc import CONSTRUCTION
from pymc_flymc.reading.fingerprint import Fingerprint


def begin_run(step: Any, checkpoint: Checkpoint | None, fingerprint: Fingerprint) -> Anchor | None:
    """Take the folder for a step's run; return the anchor that was found when it first began."""
    if checkpoint is None:
        return None
    (given, *_), settings = getattr(step, CONSTRUCTION)
    return checkpoint.begin(identity_of_run(type(step), given, settings, fingerprint))


def keep_run(
    checkpoint: Checkpoint | None, anchor: Anchor, target: Any, adaptation: Any, others: np.ndarray
) -> str:
    """Write what has been prepared for a run, or check that it is the same; return its hash."""
    prepared = identity_of_target(target, adaptation, others)
    if checkpoint is not None:
        checkpoint.keep(anchor, prepared)
    return prepared


def begin_chain(
    step: Any, checkpoint: Checkpoint | None, n_parameters: int, tune: int, draws: int
) -> Journal | None:
    """Begin to record a step's chain, or set it to the state after its last recorded draw."""
    if checkpoint is None:
        return None
    statistics = {name: dtype for name, (dtype, _) in step.stats_dtypes_shapes.items()}
    form = RecordFormat(n_parameters, statistics)
    journal = checkpoint.journal(step.rng, tune, tune + draws, form)
    if journal.state is None:
        journal.save(step.sampling_state)
    else:
        step.sampling_state = journal.state
        step.tune = tune > 0  # the replay begins with tuning
    return journal
