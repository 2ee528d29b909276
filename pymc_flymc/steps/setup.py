"""Reading of a step's model, search of its anchor, and checks of the sampler chosen for it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pymc.blocking import PointType
from pymc.model import Model
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.comparison import check_agreement
from pymc_flymc.agreement.compiled import check_compiled, check_rounded_sums
from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import expanded_density, nearby
from pymc_flymc.anchor.following_effects import find_following
from pymc_flymc.anchor.funnels import warn_of_funnels
from pymc_flymc.anchor.mode_finding import ModeFinder
from pymc_flymc.anchor.moving_shifts import find_shifts
from pymc_flymc.anchor.other_modes import warn_of_other_modes
from pymc_flymc.bounds import Problem
from pymc_flymc.bounds.validity import check_declared
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.shared_scales import SharedScales
from pymc_flymc.reading.flat import Layout, flatten_model
from pymc_flymc.reading.model import FullPass, read_model, warn_of_full_passes
from pymc_flymc.reading.points import anchor_point, check_start, complete_point
from pymc_flymc.reading.scaled_effects import find_non_centred_effects, find_shared_scales
from pymc_flymc.regression.regression import names_of
from pymc_flymc.reporting import Stopwatch, log
from pymc_flymc.sampling.bound_choice import BoundSetting, advice_on_columns, bounds_asked
from pymc_flymc.sampling.proposal_weights import LogDensity
from pymc_flymc.sampling.reanchoring import Anchors
from pymc_flymc.sampling.sampler import Sampler, SamplingTask
from pymc_flymc.target.target import Target

if TYPE_CHECKING:
    from pymc_flymc.out_of_core.source import RowSource


@dataclass(frozen=True)
class Setup(SamplingTask):
    """A model in numbers and graphs, with an anchor: a `SamplingTask`, and where it comes from."""

    vars: list[TensorVariable]  #: Value variables that the step samples.
    #: Places of these in a flat vector; `others_layout` has the variables of other steps.
    layout: Layout
    others_layout: Layout
    theta: np.ndarray  #: The model's initial point, (D,).
    full_passes: tuple[FullPass, ...]
    per_row: dict[str, int]

    @property
    def statistics(self) -> dict[str, float]:
        """Return the statistics that are the same for all draws."""
        return {"n_rows": sum(problem.design.n_rows for problem in self.problems)}


def read(
    model: Model,
    vars: Sequence[Any] | None,
    anchor: dict[str, Any] | None,
    initial_point: PointType | None,
    bound: BoundSetting,
    source: RowSource | None = None,
    kept: Anchor | None = None,
    watch: Stopwatch | None = None,
) -> Setup:
    """Read a model with its current data, and find its anchor or take the given one.

    `vars`, `anchor`, `initial_point` and `bound` are arguments of a step; `source` has rows out of
    core. `kept` is an anchor that was found before for this model and these settings, and `watch`
    measures the time of each part.
    """
    watch = watch or Stopwatch()
    if source is None:
        found = read_model(model, vars)
    else:
        from pymc_flymc.out_of_core.stored_model import read_stored

        found = read_stored(model, vars, source)
    bounds = bounds_asked(bound, found.regressions)
    initial_point = complete_point(model, initial_point)
    inputs = set(graph_inputs([found.prior_logp]))
    others = [v for v in model.value_vars if v in inputs and v not in found.vars]
    layout, others_layout = (Layout.of(each, initial_point) for each in (found.vars, others))
    if not layout.size:
        names = ", ".join(repr(v.name) for v in found.vars)
        raise ValueError(
            f"there is nothing to sample: no element of {names}, which PyMC cannot sample either. "
            "Add a parameter, such as pm.Normal('intercept')"
        )
    theta, of_others = layout.ravel(initial_point), others_layout.ravel(initial_point)
    if anchor is None:
        check_start(theta, layout)
    if source is not None and others:
        raise UnsupportedModelError(
            "with data= the step samples all variables of the model, for proposals are made before "
            f"they are wanted, and {[v.name for v in others]} are left to others: leave out vars=, "
            "or put the rows into the model, without data="
        )
    graph = flatten_model(
        found.prior_logp,
        found.coefficients,
        [regression.design.n_coefficients for regression in found.regressions],
        found.vars,
        layout,
        others,
        others_layout,
    )
    watch.lap("reading_time")
    density = expanded_density(graph, of_others)
    finder = ModeFinder(density, found.regressions, layout)
    if kept is not None:
        at = kept
    elif anchor is None:
        at = finder.find(theta)
        log.info(
            f"posterior mode found in {at.passes:.1f} passes over the rows of "
            f"{names_of(found.regressions)}"
        )
        warn_of_other_modes(model, density, at, theta, layout)
    else:
        at = finder.at(layout.ravel(anchor_point(model, anchor)))
    watch.lap("mode_time")
    check_agreement(model, found, graph, at, (layout, others_layout), theta, of_others)
    watch.lap("check_time")
    scales = find_shared_scales(model, found.vars, layout)
    if not density.is_affine:
        multiplied = find_non_centred_effects(density.coefficients, nearby(at.theta), layout)
        scales = SharedScales.joined([scales, multiplied])
    if kept is None:
        warn_of_funnels(density, at, scales, layout)
    shifts = find_shifts(density, found.regressions, at, scales)
    following = find_following(density, at, scales)
    graph = replace(graph, scales=scales, shifts=shifts, following=following)
    watch.lap("reading_time")
    return Setup(
        graph=graph,
        problems=Problem.of(found.regressions, at),
        bounds=bounds,
        others=of_others,
        vars=list(found.vars),
        layout=layout,
        others_layout=others_layout,
        theta=theta,
        full_passes=found.full_passes,
        per_row=found.per_row,
    )


def checked_sampler(sampler: Sampler, setup: Setup) -> Sampler:
    """Return the chosen sampler, checked, with the anchors that its chains may move to."""
    target, anchors = sampler.target, None
    for problem, part in zip(setup.problems, target.parts, strict=True):
        check_declared(problem, part.bound)
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
