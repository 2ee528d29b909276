"""Common parts of all Firefly step methods: data that stay current, running a chain."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.model import Model, modelcontext
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor import config
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import CONSTRUCTION, ProgressColumns, SavedState, chains_are_running
from pymc_flymc.errors import check, check_object, is_positive_integer, warn
from pymc_flymc.reading.points import check_start
from pymc_flymc.reporting import TIMES, Stopwatch, log, reported, reporting
from pymc_flymc.sampling.diagnostics import STATISTICS, ChainDiagnostics
from pymc_flymc.steps.processes import Interrupts, end_with_parent, interruptible, watch_chains
from pymc_flymc.steps.running import (
    advise_at_the_end,
    check_model,
    check_no_chain_runs,
    check_seeded,
    start_is_given,
    warn_of_recording,
)
from pymc_flymc.threads import one_blas_thread, reading_lock

if TYPE_CHECKING:
    from pymc_flymc.anchor.anchor import Anchor
    from pymc_flymc.bounds import Bound
    from pymc_flymc.checkpoint import Journal
    from pymc_flymc.out_of_core.batch_target import BatchTarget
    from pymc_flymc.out_of_core.source import RowSource
    from pymc_flymc.reading.fingerprint import Fingerprint
    from pymc_flymc.sampling.adaptation import Adaptation
    from pymc_flymc.sampling.bound_choice import BoundSetting
    from pymc_flymc.sampling.chain import FireflyChain
    from pymc_flymc.sampling.sampler import Sampler, SamplingTask
    from pymc_flymc.sampling.tuning import Tuning
    from pymc_flymc.target.resampling import Resampling
    from pymc_flymc.target.target import Target


#: Attributes that are not pickled.
_STAYS = CONSTRUCTION, "_chain", "_model", "_fingerprint", "_asked", "_source", "_journal"


@dataclass_state
class FireflyState(StepMethodState):
    """What a saved sampling state holds; see `FireflyChain.save`."""

    tune: bool
    tuning: Tuning | None = field(default=None)
    chain_state: dict[str, Any] | None = field(default=None)


class FireflyStep(SavedState, ProgressColumns, BlockedStep):
    """A step method over (parameters, brightness); subclasses define how the parameters move.

    Methods import what a built step needs: numba, and most of this package, take as long to import
    as PyMC. So importing a step takes no longer than importing PyMC.
    """

    saved_state = FireflyState
    default_tune_steps = 500
    #: Statistics of all steps; subclasses add their own.
    common_stats: ClassVar[dict[str, Any]] = {
        "n_bright": (np.int64, []),
        "likelihood_queries": (np.int64, []),
        "acceptance_probability": (np.float64, []),
        "transitions": (np.int64, []),
        "n_rows": (np.int64, []),
        "anchor_moved": (np.bool_, []),
        **STATISTICS,
        **TIMES,
        "bound_violations": (np.int64, []),
        "non_finite_ratios": (np.int64, []),
    }
    progress_columns: ClassVar[dict[str, str]] = {
        "n_bright": "Bright rows",
        "likelihood_queries": "Rows read",
    }
    _unused: ClassVar[dict[str, float]] = {}  #: Statistics of kernels that are not in use.
    _has_warned = False
    #: Whether a user gave values at which chains start, even if they are the model's own.
    _start_is_given = False
    #: Number of chains that have begun in this process since `pm.sample` did.
    _begun = 0

    def _build(
        self,
        vars: Sequence[Any] | None,
        bound: BoundSetting,
        brightness: Resampling | None,
        transitions: int | None,
        anchor: dict[str, Any] | None,
        model: Model | None,
        rng: RandomGenerator,
        initial_point: PointType | None,
        checkpoint: str | os.PathLike[str] | None = None,
        source: RowSource | None = None,
    ) -> None:
        """Keep the settings, and read the model."""
        from pymc_flymc.checkpoint import Checkpoint

        check_common(vars, bound, brightness, transitions, anchor, initial_point, checkpoint)
        self.rng, self.tune = get_random_generator(rng), True
        self._brightness, self._transitions = brightness, transitions
        self._model: Model | None = modelcontext(model)
        self._asked = vars, anchor, initial_point, bound
        self._source, self._interrupts = source, Interrupts()
        self._checkpoint = None if checkpoint is None else Checkpoint(checkpoint)
        self._journal: Journal | None = None
        self._fingerprint: Fingerprint | None = None
        self._read()

    @interruptible
    @reported
    @reading_lock.held()
    def _read(self) -> None:
        """Read the model with its current data, find the anchor and build the target."""
        from pymc_flymc.checkpoint import identity_of_target
        from pymc_flymc.reading.fingerprint import Fingerprint
        from pymc_flymc.steps.setup import checked_sampler, read

        assert self._model is not None
        if self._fingerprint is not None:
            log.info("the model's data have changed: they are read again")
        if self._source is not None:
            self._source.renew()
        # The fingerprint is set at the end, so that a step that failed to read does not sample.
        self._fingerprint = None
        self._chain: FireflyChain | None = None
        self.tuning: Tuning | None = None
        self._diagnostics = ChainDiagnostics(0, ())
        source, self._watch = self._source, Stopwatch()
        fingerprint = Fingerprint.of(self._model, None if source is None else source.identity)
        kept = None if self._checkpoint is None else self._checkpoint.begin(self, fingerprint)
        # PyTensor would note for each variable where it was made, in a tenth of the time.
        with one_blas_thread(), config.change_flags(traceback__limit=0):
            reading = read(self._model, *self._asked, source, kept, self._watch)
            self._vars, self._per_row = reading.vars, reading.per_row
            self.observed = tuple(problem.name for problem in reading.problems)
            self._of_all_draws = reading.statistics
            self._layout, self._others_layout = reading.layout, reading.others_layout
            self._default_theta, self._rescaled = reading.theta, reading.graph.scales.moved
            sampler = self._choose(reading)
            self._watch.lap("choice_time")
            self.sampler = checked_sampler(sampler, reading)
        self.prepared = identity_of_target(sampler.target, sampler.adaptation, reading.others)
        if self._checkpoint is not None:
            self._checkpoint.keep(reading.problems[0].anchor, self.prepared)
        self._watch.lap("check_time")
        self._fingerprint, self.data = fingerprint, fingerprint.content_hash

    def _refresh(self, in_place: bool) -> None:
        """Read the model again if it or its data have changed, in a data pass if `in_place`."""
        if self._model is None:  # in a worker without the model: data came with the step
            return
        if self._fingerprint is None or not self._fingerprint.matches(in_place):
            if self._begun:
                check_no_chain_runs(type(self).__name__)
            self._read()

    @property
    def vars(self) -> list[TensorVariable]:  # type: ignore[override]
        """Return the value variables that the step samples."""
        # PyMC reads them when it begins to sample, before any chain's process starts: then data
        # that have changed are read again, once for all chains.
        check_model(self._model, type(self).__name__)
        if not chains_are_running():
            self._begun = 0
        if self._checkpoint is not None:
            check_seeded(type(self).__name__)
        self._refresh(in_place=self._chain is None)
        if self._model is not None and not chains_are_running():
            self._start_is_given = start_is_given(self._model, self._vars)
        return self._vars

    def begin_run(self) -> None:
        """Warn of recorded variables that are as long as the data; watch the chains' processes."""
        warn_of_recording(self._per_row)
        watch_chains()
        advise_at_the_end()

    @abstractmethod
    def _choose(self, task: SamplingTask) -> Sampler:
        """Return the sampler for a task, with the bound that was requested or a good one.

        `task`: the model in numbers and graphs, with its anchor.
        """

    @property
    def target(self) -> Target | BatchTarget:
        """Return the augmented density, at the anchor that was found before sampling."""
        return self.sampler.target  # type: ignore[no-any-return]

    @property
    def adaptation(self) -> Adaptation:
        """Return what the kernel learns while a chain tunes."""
        return self.sampler.adaptation

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Return the bound in use for each likelihood."""
        return tuple(part.bound for part in self.target.parts)

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Start a new chain: nothing of an earlier one remains."""
        super().setup_chain(rng, tune, draws)
        end_with_parent()
        self._refresh(in_place=True)
        self._begun += 1
        self._chain, self._has_warned = self.sampler.new_chain(), False
        dense = self.target.geometry.dense
        names, rescaled = [self._layout.describe(j) for j in dense], np.isin(dense, self._rescaled)
        self._diagnostics = ChainDiagnostics(draws, names, rescaled)
        self.tune = tune > 0
        self.tuning = self.sampler.new_tuning(tune)
        self._journal = None
        if self._checkpoint is not None:
            self._journal = self._checkpoint.begin_chain(self, self._layout.size, tune, draws)
        self._interrupts.begin(tune + draws)
        self._watch.begin_chain()

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make the transitions of one draw, or return a recorded one."""
        if self._chain is None or self.tuning is None:
            self.setup_chain(self.rng, 0, 1)
        self._interrupts.check()
        theta, others = self.flatten(point)
        journal = self._journal
        recorded = None if journal is None else journal.replay(theta, others)
        drawn, stats = recorded or self._draw(theta, others)
        if recorded is not None:
            self._watch.begin_chain(stats["elapsed_time"])
        if journal is not None and recorded is None and journal.record(theta, others, drawn, stats):
            journal.save(self.sampling_state)
        parameters = drawn[self.target.geometry.dense]
        stats["warning"] = self._diagnostics.warning(stats, parameters, self.tune)
        # All keys, in their order; never in place: the point may be memory shared with PyMC.
        return {**point, **self._layout.unravel(drawn)}, [stats]

    def _draw(self, theta: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """Make the transitions of one draw; return its parameters, to be copied, and statistics."""
        chain, tuning = self._chain, self.tuning
        assert chain is not None and tuning is not None
        chain.set_others(others)
        if not chain.started:
            given = self._start_is_given or not np.array_equal(theta, self._default_theta)
            if given:
                check_start(theta, self._layout)
            self.sampler.start(chain, self.rng, theta if given else None)
        elif not np.array_equal(theta, self._layout.round(chain.state.theta)):
            # Another step moved our variables: z is drawn again from its conditional distribution.
            chain.start_at(self.rng, theta)
        transitions, before = tuning.transitions, chain.state.theta.copy()
        accept = chain.advance(self.rng, transitions, tuning.gain() if self.tune else 0.0)
        violations, not_finite = chain.take_violations(), chain.take_not_finite()
        if violations:
            self._report(chain.describe_violation())
        if self.tune:
            with reporting(type(self).__name__):
                chain, tuning = self.sampler.learn(chain, tuning, self.rng)
            self._chain, self.tuning = chain, tuning
        return chain.state.theta, {
            "n_bright": chain.n_bright,
            "likelihood_queries": chain.take_queries(),
            "acceptance_probability": accept,
            "transitions": transitions,
            **self._of_all_draws,
            "anchor_moved": chain.anchor is not None,
            **self._diagnostics.statistics(chain, before),
            **self._watch.statistics(),
            "bound_violations": violations,
            "non_finite_ratios": not_finite,
            **self._unused,
            **self.adaptation.statistics(chain),
        }

    def _report(self, violation: str) -> None:
        """Raise an error for a violated bound, or warn once for each chain while it tunes."""
        name = type(self).__name__
        if not self.tune:
            raise RuntimeError(f"{name}: {violation}")
        if not self._has_warned:
            warn(f"{name}: while it tunes, {violation}")
            self._has_warned = True

    def flatten(self, point: PointType) -> tuple[np.ndarray, np.ndarray]:
        """Return the step's variables, and those of other steps that matter, as flat vectors."""
        return self._layout.ravel(point), self._others_layout.ravel(point)

    @property
    def model(self) -> Model | None:
        """Return the model that the step was built for; None in a worker without it."""
        return self._model

    @property
    def chain(self) -> FireflyChain | None:
        """Return the running chain; None before `setup_chain`, and once data have changed."""
        return self._chain

    @property
    def chain_state(self) -> dict[str, Any] | None:
        """Return the state of the running chain, a part of `sampling_state`."""
        if self._chain is None:
            return None
        return self._chain.save() | {"data": self.data, "prepared": self.prepared}

    @chain_state.setter
    def chain_state(self, saved: dict[str, Any] | None) -> None:
        # With other data, the saved brightness has no meaning: the chain starts again.
        if saved is None or saved["data"] != self.data:
            self._chain = None
            return
        # With another bound other rows are bright, and other kernels have other parameters.
        if saved["prepared"] != self.prepared:
            raise ValueError(
                f"{type(self).__name__}: a sampling state is for a step with the settings of the "
                "one that it was taken from: the same moves, bounds and anchor"
            )
        anchor = saved["anchor"]
        if self._chain is None or not _same(self._chain.anchor, anchor):
            self._chain = self.sampler.new_chain(anchor)
        self._chain.restore(saved)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle without the model, which holds the data: they are sent as a file."""
        self._refresh(in_place=True)
        state = {k: v for k, v in self.__dict__.items() if k not in _STAYS}
        return _rebuild, (type(self), state, self.chain_state)


def _rebuild(cls: type, state: dict[str, Any], chain_state: dict[str, Any] | None) -> Any:
    step: Any = object.__new__(cls)
    step.__dict__.update(state)
    step._chain = step._model = step._journal = None
    step.chain_state = chain_state
    return step


def _same(a: Anchor | None, b: Anchor | None) -> bool:
    """Return whether the anchors of two chains are the same, or both missing."""
    if a is None or b is None:
        return a is b
    return np.array_equal(a.theta, b.theta) and np.array_equal(a.w, b.w)


def check_common(
    vars: object,
    bound: object,
    brightness: object,
    transitions: object,
    anchor: object,
    initial_point: object,
    checkpoint: object,
) -> None:
    """Refuse settings of the wrong kind; None stands for the default of each."""
    from pymc_flymc.sampling.bound_choice import check_bound_setting  # late: see `FireflyStep`
    from pymc_flymc.target.resampling import Resampling

    if vars is not None and not isinstance(vars, str | Variable):
        expected = "variables or their names (all other settings are named: bound=Taylor())"
        for each in vars if isinstance(vars, Collection) else [vars]:
            check(isinstance(each, str | Variable), "vars", expected, each)
    check_bound_setting(bound)
    if brightness is not None:
        expected = "ImplicitResampling(), ExplicitResampling() or None"
        check_object("brightness", brightness, lambda k: issubclass(k, Resampling), expected)
    good = transitions is None or is_positive_integer(transitions)
    check(good, "transitions", "a positive integer or None", transitions)
    good = anchor is None or isinstance(anchor, Mapping)
    check(good, "anchor", "a dict of values by names of free variables, or None", anchor)
    good = initial_point is None or isinstance(initial_point, Mapping)
    check(good, "initial_point", "a dict like model.initial_point(), or None", initial_point)
    good = checkpoint is None or isinstance(checkpoint, str | os.PathLike)
    check(good, "checkpoint", "the path of a folder, or None", checkpoint)
