"""What would help a run: sentences, none where nothing is wrong."""

from collections.abc import Iterator

import numpy as np

from pymc_flymc.reporting import count
from pymc_flymc.run_numbers import Run
from pymc_flymc.sampling.diagnostics import ChainDiagnostics, Drawn

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
    state = f"R-hat {run.r_hats[at]:.3g}"
    if at == run.slowest:
        state += f", {run.effective:,.0f} effective draws of {run.n_chains * run.n_draws:,}"
    chance = (r_hat**2 - 1.0) * float(run.effective_of[run.worst]) / run.n_chains < CHANCE
    if each >= FEWEST_EFFECTIVE and (r_hat <= LARGEST_R_HAT or chance):
        # What R-hat has above one falls as one over the number of draws.
        longer = max(EFFECTIVE / each, (r_hat**2 - 1.0) / (R_HAT**2 - 1.0))
        yield f"There are too few draws of {name} ({state}): take {_draws(run, longer)}."
    elif r_hat > LARGEST_R_HAT and run.chains_have_settled():
        yield (
            f"The chains have settled in different places, by {name} ({state}): the posterior has "
            "several modes, between which longer chains do not move. Look at az.plot_trace(idata), "
            "and give an order, or narrower priors, to what can be exchanged."
        )
    else:
        yield (
            f"The chains have not converged, {name} last of all ({state}): "
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
