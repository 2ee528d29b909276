"""What is checked of a sampler before its first draw, and what is said of it."""

from __future__ import annotations

import functools
from dataclasses import replace

from pymc_flymc.agreement.compiled import check_compiled
from pymc_flymc.agreement.rounded_sums import check_rounded_sums
from pymc_flymc.bounds.first_use import check_first_use
from pymc_flymc.reading.full_passes import warn_of_full_passes
from pymc_flymc.reporting import log
from pymc_flymc.sampling.bright_rows import advice_on_columns
from pymc_flymc.sampling.far_out import LogDensity
from pymc_flymc.sampling.reanchoring import Anchors
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.steps.setup import Setup
from pymc_flymc.target.target import Target


def checked_sampler(sampler: Sampler, setup: Setup) -> Sampler:
    """Return a sampler that may draw, with the anchors that its chains may move to.

    Parameters
    ----------
    sampler : Sampler
        As it was chosen.
    setup : Setup
        The model that it samples.
    """
    target, anchors = sampler.target, None
    for problem, part in zip(setup.problems, target.parts, strict=True):
        check_first_use(problem, part.bound)
    if isinstance(target, Target):  # anchors move in memory only: each takes a pass
        check_compiled(target, setup.problems, setup.others)
        log_density = LogDensity(target, setup.others)
        check_rounded_sums(target, setup.problems, setup.others, log_density)
        anchors = Anchors.of(target, setup.problems, setup.layout, sampler.brightness)
        names, others = [problem.name for problem in setup.problems], setup.others
        seconds = functools.partial(target.seconds, others)
        warn_of_full_passes(setup.full_passes, names, seconds)
        for line in advice_on_columns(target, setup.problems, setup.graph, setup.layout):
            log.info(line)
    return replace(sampler, anchors=anchors)
