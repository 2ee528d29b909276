"""Private parts of PyMC."""

import inspect
import sys
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, ClassVar

from pymc.sampling.mcmc import sample
from pymc.sampling.parallel import ProcessAdapter
from pymc.stats.convergence import WarningType
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pytensor.graph.rewriting.basic import in2out
from rich.progress import TextColumn
from rich.table import Column

from pymc_flymc.compat import private, require

_families = "hurdles and zero-inflated outcomes are not recognised"
HurdleRV = private("pymc.distributions.mixture:_HurdleRV", _families)
MixtureRV = private("pymc.distributions.mixture:MixtureRV", _families)

_dependent = "scales do not move with effects that depend on one another"
ZeroSumNormalRV = private("pymc.distributions.multivariate:ZeroSumNormalRV", _dependent)
RandomWalkRV = private("pymc.distributions.timeseries:RandomWalkRV", _dependent)
CARRV = private("pymc.distributions.multivariate:CARRV", _dependent)

_scales = "scales do not move with the effects that they multiply"
MoyalRV = private("pymc.distributions.continuous:MoyalRV", _scales)
SkewNormalRV = private("pymc.distributions.continuous:SkewNormalRV", _scales)
LogTransform = private("pymc.logprob.transforms:LogTransform", _scales)

_variables = "variables are not found by vars=, and have no shapes and no values to begin with"
get_value_vars_from_user_vars = private("pymc.util:get_value_vars_from_user_vars", _variables)
make_initial_point_expression = private(
    "pymc.initial_point:make_initial_point_expression", _variables
)
make_initial_point_fn = private("pymc.initial_point:make_initial_point_fn", _variables)
MinibatchRandomVariable = private(
    "pymc.variational.minibatch_rv:MinibatchRandomVariable", "total_size= is not refused with data="
)

_custom = "weighted rows and data in densities of a user's own are not seen"
CustomDistRV = private("pymc.distributions.custom:CustomDistRV", _custom)
CustomSymbolicDistRV = private("pymc.distributions.custom:CustomSymbolicDistRV", _custom)

#: Name of PyMC's rewrite of its checks of parameters, which its own compiled densities use: if a
#: scale has underflowed to zero, the density is zero. Other exceptions are raised.
CHECKS = "local_check_parameter_to_ninf_switch"
_parameters = "parameters without a density end a run"
#: The same for a graph that has no other rewrites.
REPLACE_CHECKS = in2out(private(f"pymc.logprob.utils:{CHECKS}", _parameters))
CheckParameterValue = private("pymc.logprob.utils:CheckParameterValue", _parameters)
ParameterValueError = private("pymc.logprob.utils:ParameterValueError", _parameters)

#: Attribute in which a step keeps the arguments that it was made with, the model among them.
CONSTRUCTION = "_BlockedStep__newargs"
require(
    CONSTRUCTION in BlockedStep.__getnewargs_ex__.__code__.co_names,
    f"BlockedStep.{CONSTRUCTION}",
    "the model and its data travel to each chain's process",
)
require(
    {"initvals", "model", "random_seed", "var_names"} <= set(inspect.signature(sample).parameters),
    "pm.sample's arguments initvals, model, random_seed and var_names",
    "a step built in another model, and records as long as the data, go without a word, and "
    "initvals that are the model's own initial point are taken for none",
)


def arguments_of_sample() -> Mapping[str, Any] | None:
    """Return the arguments of the call of ``pm.sample`` that is running, or None.

    They are read from the frame of the call, for PyMC 6.4 tells a step neither the model that is
    sampled, nor what is recorded, nor which starts a user gave. Before the draws it reads only
    `vars`, `stats_dtypes` and the columns of the progress bar from a step; a chain's process
    receives the step alone. With ``model=`` the model of the context is another one.
    """
    return _variables_of(sample)


def _variables_of(function: Any) -> Mapping[str, Any] | None:
    """Return the variables of the innermost running call of a function, or None without a call."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals


#: A variable of `pm.sample` that is set when its chains begin.
_WHEN = "t_start"
require(
    _WHEN in sample.__code__.co_varnames,
    f"pm.sample's variable {_WHEN}",
    "chains of one run may have different data if a callback changes these",
)


def chains_are_running() -> bool:
    """Return whether a call of ``pm.sample`` in this process has finished its set-up."""
    return _WHEN in (arguments_of_sample() or {})


#: Prefix of the names of the processes in which chains run.
CHAIN_PROCESS = "worker_chain"
_killed = "that one of them was killed is not said"
require(
    CHAIN_PROCESS in inspect.getsource(ProcessAdapter),
    f"names of chains' processes, {CHAIN_PROCESS}",
    _killed,
)
require("_popen" in BaseProcess.start.__code__.co_names, "multiprocessing's _popen", _killed)


def known_exit_code(process: BaseProcess) -> int | None:
    """Return the exit code of a chain's process, or None until PyMC has asked for it."""
    # The system reports it once. If two threads ask at the same time, by `join` or `exitcode`, one
    # is told that the process does not exist, and takes it for alive.
    return process._popen.returncode  # type: ignore[attr-defined,no-any-return]


_checked = "what would help chains that have not converged is said by report() alone"
_sample_return = private("pymc.sampling.mcmc:_sample_return", _checked)
require(
    {"idata", "warns"} <= set(_sample_return.__code__.co_varnames),
    "_sample_return's variables idata and warns",
    _checked,
)


def checked_draws(message: str) -> Any:
    """Return the draws of all chains while PyMC logs that they have not converged.

    PyMC 6.4 does not call a step once all chains have ended. It checks their draws in a frame that
    also logs `message`. None if this is another message, or not the last one.
    """
    known = _variables_of(_sample_return) or {}
    warns = known.get("warns", ())
    on_chains = [each.message for each in warns if each.kind is WarningType.CONVERGENCE]
    return known["idata"] if on_chains[-1:] == [message] else None


def printed_name(op: Any) -> str | None:
    """Return the name under which an operation prints its distribution, or None."""
    names = getattr(op, "_print_name", None)
    return names[0] if names else None


class SavedState:
    """What PyMC saves of a step, and restores, by the property `sampling_state`."""

    #: Its fields are the names of the attributes that are saved.
    saved_state: ClassVar[type[StepMethodState]]

    @property
    def _state_class(self) -> type[StepMethodState]:
        return self.saved_state


require(
    hasattr(BlockedStep, "_state_class"),
    "BlockedStep._state_class",
    "no chain is saved, and each chain of a process goes on from the one before",
)


class ProgressColumns:
    """Statistics of a step's draws in PyMC's progress bar."""

    progress_columns: ClassVar[dict[str, str]] = {}  #: Titles of columns by names of statistics.

    def begin_run(self) -> None:
        """Do what is needed once when a run begins, in the process that records the draws."""

    def _progressbar_config(
        self, n_chains: int = 1
    ) -> tuple[list[TextColumn], dict[str, list[int]]]:
        self.begin_run()
        columns = [
            TextColumn(f"{{task.fields[{name}]}}", table_column=Column(title, ratio=1))
            for name, title in self.progress_columns.items()
        ]
        return columns, {name: [0] * n_chains for name in self.progress_columns}

    def _make_progressbar_update_functions(self) -> tuple[Callable[..., Any], ...]:
        names = list(self.progress_columns)
        return (lambda stats: {name: stats[name] for name in names},)


for _hook in ("_progressbar_config", "_make_progressbar_update_functions"):
    require(hasattr(BlockedStep, _hook), f"BlockedStep.{_hook}", "the progress bar says less")
