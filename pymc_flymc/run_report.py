"""What a run reports of itself: its numbers, what would help, and a table."""

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.order import first_largest
from pymc_flymc.reporting import SETUP, count
from pymc_flymc.sampling.diagnostics import ChainDiagnostics, Drawn, evenly, tail_index

#: Scalar parameters that are looked at, of more an even choice.
LOOKED_AT = 1000
#: R-hat of a chain's halves below which it has settled, wherever that is.
SETTLED = 1.05
#: Fewer effects have no scale to speak of; a scale and the spread of its effects have logarithms
#: that correlate by more than this.
FEWEST_EFFECTS, TIED = 5, 0.5


class Run:
    """What a run did, of its draws and their statistics.

    Parameters
    ----------
    idata : DataTree
        As of `report`.

    Attributes
    ----------
    n_chains, n_draws, n_rows, n_observed, n_parameters : int
        Draws are those of each chain; parameters are scalars. Observed values are those that have
        been saved; of ordered levels each has up to two rows.
    every : float
        One, or the number of draws made for each that was kept when chains were thinned.
    names : list of str
        Of the parameters that are looked at, L of them.
    draws : ndarray, shape (chains, draws, L)
    r_hats : ndarray, shape (L,)
        NaN for what is constant, and of a single chain.
    slowest : int
        Place in `names` of the parameter with the fewest effective draws.
    effective : float
        Effective draws of the slowest parameter, of all chains together.
    effective_of : ndarray, shape (L,)
        Effective draws of each parameter, of all chains; NaN for what is constant.
    read_for : ndarray, shape (L,)
        Rows read for one of them.
    bright, accept : float
        Mean number of bright rows, and mean acceptance rate.
    read : float
        Rows read per effective draw.

    Raises
    ------
    ValueError
        If it was not sampled by one step of this package.
    """

    def __init__(self, idata: Any) -> None:
        groups = getattr(idata, "children", ())  # a MultiTrace has none
        stats: Any = idata["sample_stats"] if "sample_stats" in groups else None
        if stats is None or "likelihood_queries" not in stats:
            raise ValueError(
                "report() is for draws of a Firefly step: this object's sample_stats have no "
                "likelihood_queries. Give it what pm.sample(step=FireflyMH()) returned"
            )
        if stats["likelihood_queries"].ndim > 2:
            raise ValueError(
                "report() is for draws of one Firefly step: this object's sample_stats are of "
                "several, side by side"
            )
        import arviz as az  # slow to import (1 s), and not needed for sampling

        observed = idata["observed_data"].data_vars.values() if "observed_data" in groups else ()
        self.n_observed = sum(v.size for v in observed)
        self._stats, self._posterior = stats, _without_rows(idata["posterior"], observed)
        self.names, self.n_parameters, self.draws = _parameters(self._posterior)
        self.n_chains, self.n_draws, _ = self.draws.shape
        with np.errstate(all="ignore"):  # of what is constant R-hat is NaN, or infinite
            found = np.atleast_1d(az.ess(self.draws))
            self.r_hats = np.atleast_1d(az.rhat(self.draws))
        # ArviZ takes all draws of what is constant for effective ones.
        is_constant = (self.draws == self.draws[:1, :1]).all(axis=(0, 1))
        self.effective_of = np.where(is_constant, np.nan, found)
        moves = np.isfinite(self.effective_of)
        self.slowest = first_largest(np.where(moves, -self.effective_of, -np.inf))
        self.effective = float(self.effective_of[self.slowest])
        self.n_rows = int(self.mean("n_rows"))
        self.bright, self.accept = self.mean("n_bright"), self.mean("acceptance_probability")
        self.every = _spacing(self._posterior)
        self.read_for = self.every * self.of("likelihood_queries").sum() / self.effective_of
        self.read = float(self.read_for[self.slowest])

    def of(self, name: str) -> np.ndarray:
        """Return a statistic of all draws, shape (chains, draws)."""
        return np.asarray(self._stats[name], dtype=np.float64)

    def mean(self, name: str) -> float:
        """Return the mean of a statistic."""
        return float(self.of(name).mean())

    @property
    def seconds(self) -> float | None:
        """Seconds that sampling took; None if they were not recorded."""
        return self._stats.attrs.get("sampling_time")  # type: ignore[no-any-return]

    @property
    def setup_seconds(self) -> dict[str, float]:
        """Seconds that each part of the set-up took, by its name."""
        return {what: self.of(name)[0, 0] for name, what in SETUP.items() if name in self._stats}

    @property
    def chain_seconds(self) -> tuple[float, float] | None:
        """Seconds of tuning, and of the draws after it: means over the chains."""
        if "elapsed_time" not in self._stats:
            return None
        first, last = self.of("elapsed_time")[:, [0, -1]].mean(axis=0)
        return float(first), float(last - first)

    @property
    def follows_trajectories(self) -> bool:
        """Whether there were gradients."""
        name = "n_leapfrog_steps"
        return name in self._stats and bool(self.of(name).any())

    @property
    def has_local_sweeps(self) -> bool:
        """Whether effects were updated one by one."""
        return "local_sweeps" in self._stats and bool(self.of("local_sweeps").any())

    @property
    def has_slices(self) -> bool:
        """Whether parameters were updated by slices."""
        return "slice_width" in self._stats

    @property
    def is_joint(self) -> bool:
        """Whether brightness was drawn together with the parameters."""
        return bool(np.isfinite(self.of("log_weight")).any())

    @property
    def pareto_k(self) -> float:
        """Largest Pareto index of a chain's weights, NaN if none has a weight that stands out."""
        chains = zip(self.of("log_weight"), self.of("moved") > 0.5, strict=True)
        found = [tail_index(weights[moved]) for weights, moved in chains]
        return float(np.nanmax(found)) if np.isfinite(found).any() else np.nan

    @property
    def reads_all(self) -> bool:
        """Whether no row was ever dark."""
        return self.bright == self.n_rows

    @property
    def worst(self) -> int:
        """Place in `names` of the parameter with the largest R-hat."""
        known = np.isfinite(self.r_hats).any()
        return first_largest(np.nan_to_num(self.r_hats)) if known else self.slowest

    def chains_have_settled(self) -> bool:
        """Return whether each chain has settled, by the R-hat of its halves for the worst one."""
        draws = self.draws[..., self.worst]
        half = self.n_draws // 2
        halves = np.stack([draws[:, :half], draws[:, -half:]]) if half > 1 else draws[None]
        between, within = halves.mean(axis=-1).var(axis=0, ddof=1), halves.var(axis=-1).mean(axis=0)
        return half > 1 and bool((between < (SETTLED**2 - 1.0) * within).all())

    def centred_effects(self) -> tuple[str, str] | None:
        """Return names of effects and of the scale that their spread follows, None if none does.

        The spread of effects that are written without a centre is known beforehand. Variables that
        the model computes as a product with the scale are no parameters.
        """
        columns = {name: _values(v) for name, v in self._posterior.data_vars.items()}
        scales = {k: v[..., 0] for k, v in columns.items() if v.shape[2] == 1 and (v > 0).all()}
        effects = {k: v for k, v in columns.items() if v.shape[2] >= FEWEST_EFFECTS}
        best, found = TIED, None
        for scale, s in scales.items():
            for name, v in effects.items():
                products = (s[..., None] * other for other in effects.values())
                if any(np.shape(each) == v.shape and np.allclose(each, v) for each in products):
                    continue
                spread = v.std(axis=-1)
                with np.errstate(all="ignore"):  # NaN of what is constant
                    tied = np.corrcoef(np.log(s).ravel(), np.log(spread).ravel())[0, 1]
                if tied > best:
                    best, found = tied, (str(name), str(scale))
        return found


def _values(variable: Any) -> np.ndarray:
    """Return draws of a variable's elements, or of an even choice: (chains, draws, L)."""
    values = variable.transpose("chain", "draw", ...).to_numpy()
    flat = values.reshape(*values.shape[:2], -1)
    return flat[..., evenly(flat.shape[-1], LOOKED_AT)]


def _without_rows(posterior: Any, observed: Iterable[Any]) -> Any:
    """Return draws without those of a value for each observed one, if there are others.

    Such as probabilities of all rows: functions of parameters, which they outnumber.
    """
    lengths = {v.shape[:1] for v in observed}
    gone = [name for name, v in posterior.data_vars.items() if v.shape[2:3] in lengths]
    few = len(gone) < len(posterior.data_vars)
    return posterior.to_dataset().drop_vars(gone) if few else posterior


def _spacing(posterior: Any) -> float:
    """Return how far apart in its chain neighbouring draws were made, by their numbers.

    Of draws between those that are kept the rows that they read are not known: they are taken to be
    as many. (The median is that within chains that have been put one behind the other.)
    """
    numbers = posterior["draw"].to_numpy()
    if len(numbers) < 2 or numbers.dtype.kind not in "iuf":
        return 1.0
    return max(float(np.median(np.diff(numbers))), 1.0)


def _parameters(posterior: Any) -> tuple[list[str], int, np.ndarray]:
    """Return names of scalar parameters, how many there are, and draws, (chains, draws, L)."""
    variables = list(posterior.data_vars.values())
    draws = [v.transpose("chain", "draw", ...).to_numpy() for v in variables]
    flat = [each.reshape(*each.shape[:2], -1) for each in draws]
    ends = np.cumsum([each.shape[-1] for each in flat])
    names, columns = [], []
    for number in evenly(int(ends[-1]), LOOKED_AT):
        i = int(np.searchsorted(ends, number, side="right"))
        element = int(number - ends[i] + flat[i].shape[-1])
        columns.append(flat[i][..., element])
        names.append(_name(variables[i], np.unravel_index(element, draws[i].shape[2:])))
    return names, int(ends[-1]), np.stack(columns, axis=-1)


def _name(variable: Any, at: tuple[Any, ...]) -> str:
    """Name an element of a variable by its coordinates, such as "beta[age]"."""
    dims = [dim for dim in variable.dims if dim not in ("chain", "draw")]
    labels = [str(variable[dim].to_numpy()[k]) for dim, k in zip(dims, at, strict=True)]
    return f"{variable.name}[{', '.join(labels)}]" if labels else str(variable.name)


#: R-hat, and effective draws of each chain, beyond which PyMC warns.
R_HAT, EFFECTIVE = 1.01, 100.0
#: Beyond these the chains do not tell how many more draws it would take.
LARGEST_R_HAT, FEWEST_EFFECTIVE = 1.05, 25.0
#: An R-hat with a square above one by less than this over the effective draws of a chain may be
#: due to chance: of chains of n independent draws (R-hat^2 - 1) n is a squared normal variable.
CHANCE = 10.0
#: Shares of bright rows, of accepted proposals and of evaluations that failed beyond which
#: something can be done.
MANY_BRIGHT, FEW_ACCEPTED, MANY_FAILED = 0.1, 0.15, 0.01
#: More parameters are mostly effects of groups.
MANY_PARAMETERS = 300


def advice_on_run(run: Run) -> Iterator[str]:
    """Yield what should be done, if anything, of what all chains show together."""
    yield from _convergence(run)
    read = run.mean("likelihood_queries")
    if read > run.n_rows and not run.reads_all:
        yield (
            f"A draw read {count(read)} rows, more than the {run.n_rows:,} that there are: "
            "subsampling saves nothing here. Read all rows, by FireflyHMC(bound=None), or leave "
            "out step=."
        )
    elif run.bright > MANY_BRIGHT * run.n_rows:
        yield (
            "Many rows are bright. The log of the set-up names columns that make them so, if "
            "there are: take logarithms of skewed ones, and put rare levels together. With few "
            "rows for each coefficient, all have to be read."
        )
    if run.accept < FEW_ACCEPTED:
        yield (
            f"Only {100 * run.accept:.0f} % of the proposals were accepted: tune longer "
            "(tune=2000), or take FireflyHMC()."
        )
    failed = run.of("non_finite_ratios").sum() / run.of("transitions").sum()
    if failed > MANY_FAILED:
        yield (
            f"The density was NaN or infinite at {100 * failed:.0f} % of the proposals, which "
            "were rejected: look for logarithms and divisions in the model."
        )


def advice_on_chains(run: Run) -> Iterator[str]:
    """Yield what a chain warned of when it ended: of one chain, for what others have is alike."""
    known = (
        run.of("log_weight"),
        run.of("acceptance_probability"),
        run.of("rescaling_acceptance_probability"),
    )
    for chain in zip(run.of("moved") > 0.5, *known, run.draws, strict=True):
        diagnostics = ChainDiagnostics(run.n_draws, run.names)
        *_, last = (diagnostics.record(Drawn(*draw)) for draw in zip(*chain, strict=True))
        if last:
            yield last.removeprefix("Firefly: ")
            return


def _convergence(run: Run) -> Iterator[str]:
    """Yield what would make R-hat and effective sample sizes good enough, if they are not."""
    if np.isnan(run.effective):
        yield "Of so few different draws nothing can be said: draw longer (draws=1000)."
        return
    r_hat = float(run.r_hats[run.worst])
    each = run.effective / run.n_chains
    if not (r_hat > R_HAT or each < EFFECTIVE):
        return
    at = run.worst if r_hat > LARGEST_R_HAT or each >= EFFECTIVE else run.slowest
    name = run.names[at]
    state = f"{run.effective:,.0f} effective draws of {run.n_chains * run.n_draws:,}"
    if not np.isnan(run.r_hats[at]):
        state = f"R-hat {run.r_hats[at]:.3g}, {state if at == run.slowest else 'the largest'}"
    excess = 0.0 if np.isnan(r_hat) else r_hat**2 - 1.0
    chance = excess * float(run.effective_of[run.worst]) / run.n_chains < CHANCE
    if each >= FEWEST_EFFECTIVE and (not r_hat > LARGEST_R_HAT or chance):
        # What R-hat has above one falls as one over the number of draws.
        longer = max(EFFECTIVE / each, excess / (R_HAT**2 - 1.0))
        yield f"There are too few draws of {name} ({state}): take {_draws(run, longer)}."
    elif r_hat > LARGEST_R_HAT and run.chains_have_settled():
        yield (
            f"The chains have settled in different places, by {name} ({state}): the posterior has "
            "several modes, between which longer chains do not move. Look at az.plot_trace(idata), "
            "and give an order, or narrower priors, to what can be exchanged."
        )
    else:
        yield (
            f"The {'chains have' if run.n_chains > 1 else 'chain has'} not converged, {name} last "
            f"of all ({state}): "
            f"{'; '.join(_remedies(run, name))}."
        )


def _remedies(run: Run, name: str) -> Iterator[str]:
    """Yield what may let chains converge, the most promising first."""
    centred = run.centred_effects()
    if centred is not None:
        effects, scale = centred
        yield (
            f"write {effects} as {scale} * z, where z has the standard deviation 1 (non-centred), "
            "if its groups have few rows"
        )
    if run.reads_all:
        yield "leave out step=, for NUTS reads as many rows"
    elif not run.follows_trajectories or run.is_joint:
        yield "take FireflyHMC()"
    elif run.bright > MANY_BRIGHT * run.n_rows:
        yield "read all rows, by FireflyHMC(bound=None)"
    elif run.n_parameters > MANY_PARAMETERS and not run.has_local_sweeps:
        yield "take FireflyMH(kernel='local') if most parameters are intercepts of groups"
    yield f"draw and tune longer ({_draws(run, 4.0)}, tune=2000)"
    yield f"give {name} a narrower prior if the data say little of it"


def _draws(run: Run, longer: float) -> str:
    """Return so many times the draws, rounded up to two digits, as a setting."""
    wanted = run.n_draws * run.every * longer
    unit = 10.0 ** max(np.floor(np.log10(wanted)) - 1.0, 0.0)
    return f"draws={int(np.ceil(wanted / unit) * unit)}"


@dataclass(frozen=True)
class Report:
    """A table of what a run did, and advice that follows; printed, or shown by notebooks.

    Attributes
    ----------
    table : dict of str
        Values by what they are of, as text.
    advice : tuple of str
        Sentences; empty where nothing is wrong.
    """

    table: dict[str, str]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        """Return the table and the advice as lines of text."""
        width = max(map(len, self.table))
        lines = [f"{name:<{width}}  {value}" for name, value in self.table.items()]
        return "\n".join([*lines, *(f"- {each}" for each in self.advice)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.table.items()
        )
        items = "".join(f"<li>{html.escape(each)}</li>" for each in self.advice)
        return f"<table>{rows}</table>" + f"<ul>{items}</ul>" * bool(items)


def report(idata: Any) -> Report:
    """Say how a run went: which moves it made, what they read, and what to do if that is much.

    Parameters
    ----------
    idata : DataTree
        What ``pm.sample`` returned, or what has been saved of it and loaded again: its groups
        ``posterior`` and ``sample_stats``.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If it was not sampled by one step of this package.

    See Also
    --------
    plot_cost : rows per effective draw of each parameter.
    plot_brightness : how often rows are bright.

    Examples
    --------
    >>> idata = pm.sample(step=FireflyMH())
    >>> pymc_flymc.report(idata)
    """
    run = Run(idata)
    return Report(_table(run), (*advice_on_run(run), *advice_on_chains(run)))


def _table(run: Run) -> dict[str, str]:
    """Return what there is to know."""
    slowest = f"{run.names[run.slowest]}, {run.effective:,.0f} effective draws of "
    slowest += f"{run.n_chains * run.n_draws:,}"
    if not np.isnan(run.r_hats[run.slowest]):
        slowest += f", R-hat {run.r_hats[run.slowest]:.3f}"
    moved = int(run.of("anchor_moved").any(axis=1).sum())
    share = run.bright / run.n_rows
    percent = "less than 0.01" if share < 1e-4 else f"{100 * share:.3g}"
    is_more = 0 < run.n_observed < run.n_rows  # as of ordered levels
    k = run.pareto_k if run.is_joint else np.nan
    weights = {"Pareto k of the weights": f"{k:.2f}"} if np.isfinite(k) else {}
    return {
        "moves": _moves(run),
        "rows": f"{run.n_rows:,}" + f" of {run.n_observed:,} observed values" * is_more,
        "rows per effective draw": count(run.read),
        "bright rows": f"{count(run.bright)} ({percent} %)",
        "acceptance": f"{run.accept:.2f}",
        **weights,
        "updates per draw": f"{run.mean('transitions'):,.0f}",
        "expansion point moved": f"in {moved} of {run.n_chains} chains" if moved else "no",
        "slowest parameter": slowest,
        **_times(run),
    }


def _times(run: Run) -> dict[str, str]:
    """Return how long the stages of the run took, as far as that was recorded."""
    times, parts = {}, run.setup_seconds
    if parts:
        listed = ", ".join(f"{what} {_seconds(took)}" for what, took in parts.items())
        times["set-up took"] = f"{_seconds(sum(parts.values()))} s ({listed})"
    if run.seconds is not None:
        times["sampling took"] = f"{_seconds(run.seconds)} s"
        if run.chain_seconds is not None:
            tuning, draws = map(_seconds, run.chain_seconds)
            times["sampling took"] += f" (per chain: tuning {tuning}, draws {draws})"
    return times


def _seconds(seconds: float) -> str:
    """Return seconds to two digits."""
    return f"{seconds:.2g}" if seconds < 99.5 else f"{seconds:,.0f}"


def _moves(run: Run) -> str:
    """Return what moves there were."""
    follows = run.follows_trajectories
    if run.is_joint:
        return "surrogate moves" if follows else "joint moves"
    if run.has_local_sweeps:
        return "local sweeps"
    kind = "slice" if run.has_slices else "Hamiltonian" if follows else "Metropolis"
    return f"{kind} moves, all rows" if run.reads_all else f"conditional {kind} moves"
