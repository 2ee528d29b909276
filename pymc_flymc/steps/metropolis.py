"""The step that selects a kernel for a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pymc.blocking import PointType
from pymc.model import Model, modelcontext
from pymc.util import RandomGenerator

from pymc_flymc.steps.step import FireflyStep

if TYPE_CHECKING:
    from pymc_flymc.sampling.bound_choice import BoundSetting
    from pymc_flymc.sampling.sampler import Sampler, SamplingTask
    from pymc_flymc.target.resampling import Resampling


class FireflyMH(FireflyStep):
    r"""Firefly Monte Carlo: the step to begin with.

    Samples the exact posterior of a model whose likelihood is a regression on many rows, reading
    only the few rows that are bright at the time.

    Parameters
    ----------
    vars : sequence of variables, optional
        Variables to sample; all free variables by default. Every variable that the likelihood
        depends on must be among them.
    bound : Bound, "auto", None, or dict of these by names of observed variables
        Lower bound on each row's likelihood. "auto" takes one that fits the kernel: ``Taylor()``
        if parameters and brightness are updated together, else the one that leaves the fewest
        rows bright. Without `kernel`, moves are joint with ``Taylor()`` and up to 300
        coefficients, and conditional Metropolis updates otherwise. None is regular MCMC: every
        transition reads all rows. In a dict, "auto" holds for likelihoods that it does not name,
        and None is only allowed for all of them.
    brightness : ImplicitResampling or ExplicitResampling, optional
        How the brightness of the rows is resampled in conditional moves, ``ImplicitResampling()``
        by default. If it is given without `kernel`, moves are Metropolis updates.
    proposal : {"auto", "random_walk", "pcn", "independent", "isotropic"}
        Proposal of Metropolis updates and joint moves, in standardised coordinates: a Gaussian
        random walk, preconditioned Crank-Nicolson around the anchor, independent draws from the
        Laplace approximation (joint moves only), or a mixture learnt in tuning. "isotropic" is the
        paper's random walk (conditional moves only): one step size for all parameters on the
        unconstrained scale, without regard to the posterior's shape.
    kernel : {"auto", "joint", "surrogate", "metropolis", "hamiltonian", "local"}
        How parameters move: independent proposals with their brightness; trajectories through a
        surrogate of the posterior, which read few rows or none, with fresh brightness at their
        ends; Metropolis updates given the brightness; Hamiltonian trajectories given it; or, for
        random intercepts of many groups, trajectories of all other parameters that the intercepts
        follow, and each intercept by itself. "auto" takes the last from 5,000 groups on, if it
        applies, and never Metropolis updates. It tries the most promising of the others when the
        step is built, and logs its choice. Costs are counted, not timed, so that a seed gives the
        same draws on a busy machine.
    transitions : int, optional
        Transitions of (parameters, brightness) in one draw. By default chosen in tuning, so that
        neighbouring draws are nearly independent.
    anchor : dict, optional
        Values of the free variables, by name, on the scale on which the model defines them: the
        point at which the bound is tuned. By default the posterior mode is searched for. A chain
        that settles far away from either moves its anchor there while it tunes.
    data : dict, data frame or path of Parquet files, optional
        All rows, if the model has only the first few: from the names of ``pm.Data``
        containers to arrays of NumPy (memory maps, too), Zarr or Dask, or columns of data frames;
        or one table, whose columns fill the containers of their names. Rows stay where they are
        stored. Only joint moves are possible. See "Data that do not fit into memory" in the
        documentation.
    client : distributed.Client or str, optional
        Dask cluster that holds the rows of Dask arrays in `data`, or the address of its scheduler.
        By default the client that is open, or without one this process.
    model : Model, optional
        Taken from the context if not given.
    rng : RandomGenerator, optional
        ``pm.sample`` gives each chain its own generator.
    initial_point : dict, optional
        Default starting point of the model on the unconstrained scale.
    checkpoint : str or path, optional
        Folder in which the run is kept, so that it continues when the same script is run after
        its process was killed: draws and statistics, except times, equal those of a run that was
        never interrupted, to the last bit. It needs ``pm.sample(random_seed=...)``. The folder is
        created if needed; the folder of another run is refused, with the differences. See "Go on
        after a kill" in the documentation.

    Raises
    ------
    UnsupportedModelError
        If the model has no likelihood that the method knows, in a form that it can read, if it
        has discrete free variables, or if a variable of the likelihood is not among `vars`.
    ValueError
        If data or settings are invalid, or if the posterior has no mode.

    See Also
    --------
    FireflyHMC : trajectories, without a choice of the kernel.
    report : what a run read, and what would help.
    weighted : rows that count with weights.

    Notes
    -----
    The main statistics of each draw are ``likelihood_queries``, rows whose likelihood was
    evaluated, for parameters and brightness together; ``n_bright``, bright rows at its end; and
    ``acceptance_probability``, the mean of its parameter updates. "Sampler statistics" in the
    documentation has all of them. Statistics of kernels that are not in use are NaN, or zero.

    Chains start from points drawn around the anchor, more dispersed than the posterior, unless
    ``pm.sample`` is given ``initvals``.

    When a run begins, data that have changed since the step was built are read again, by
    ``pm.set_data`` or in place; nothing is compiled again if their shapes are the same.

    References
    ----------
    Maclaurin, D. and Adams, R. P. (2014). Firefly Monte Carlo: exact MCMC with subsets of data.
    UAI.

    Examples
    --------
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
    ...     pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     idata = pm.sample(step=FireflyMH())
    """

    name = "firefly_mh"
    _of_kernels: ClassVar[dict[str, Any]] = {
        "random_walk_scale": (np.float64, []),
        "pcn_scale": (np.float64, []),
        "leapfrog_step_size": (np.float64, []),
        "n_leapfrog_steps": (np.int64, []),
        "local_sweeps": (np.int64, []),
    }
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {**FireflyStep.common_stats, **_of_kernels}
    _unused: ClassVar[dict[str, float]] = {
        name: 0 if kind is np.int64 else np.nan for name, (kind, _) in _of_kernels.items()
    }

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        bound: BoundSetting = "auto",
        brightness: Resampling | None = None,
        proposal: Literal["auto", "random_walk", "pcn", "independent", "isotropic"] = "auto",
        kernel: Literal[
            "auto", "joint", "surrogate", "metropolis", "hamiltonian", "local"
        ] = "auto",
        transitions: int | None = None,
        anchor: dict[str, Any] | None = None,
        data: Any = None,
        client: Any = None,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        from pymc_flymc.sampling.choice import check_settings  # late: see `FireflyStep`

        check_settings(bound, brightness, proposal, kernel)
        source = None
        if data is not None:
            from pymc_flymc.out_of_core.data_setting import check_head, of_table, source_of
            from pymc_flymc.out_of_core.feasibility import check_out_of_core
            from pymc_flymc.out_of_core.frames import labels_of

            check_out_of_core(bound, brightness, proposal, kernel, transitions)
            of = modelcontext(model)
            source = source_of(of_table(data, of), client, labels_of(of))
            check_head(source, of)
        self._settings = brightness, proposal, kernel
        common = vars, bound, brightness, transitions, anchor, model, rng, initial_point, checkpoint
        self._build(*common, source)

    @property
    def provenance(self) -> dict[str, Any]:
        """Return how many rows the draws are conditioned on, and where the rows of `data` are.

        PyMC lets no step write attributes of a result: ``idata.attrs.update(step.provenance)``.

        Returns
        -------
        dict
            ``"n_rows"``, an int, and for each container ``"data NAME"``, a str: the file, folder or
            store that its rows are in, ``"memory"``, or ``"computed"``.
        """
        places = {} if self._source is None else self._source.places
        return {"n_rows": self._of_all_draws["n_rows"]} | {
            f"data {name}": at for name, at in places.items()
        }

    def _choose(self, task: SamplingTask) -> Sampler:
        if self._source is not None:
            from pymc_flymc.out_of_core.feasibility import choose_batches

            return choose_batches(task)
        from pymc_flymc.sampling.choice import choose_sampler

        return choose_sampler(task, *self._settings, self._transitions)
