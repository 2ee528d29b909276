"""How much of a posterior's tail a chain visits, against quadrature."""

from dataclasses import dataclass

import arviz as az
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace, vectorize_graph

#: Share of the posterior beyond the contour of its density that is looked at.
SHARE = 1e-3


def log_density_of(model):
    """Log posterior at unconstrained points (M, D), of PyMC's own graph."""
    point, parts, start = pt.dvector("point"), {}, 0
    initial = model.initial_point()
    for variable in model.continuous_value_vars:
        shape = initial[variable.name].shape
        size = int(np.prod(shape))
        parts[variable] = point[start : start + size].reshape(shape)
        start += size
    points = pt.dmatrix("points")
    (one,) = graph_replace([model.logp()], parts)
    many = vectorize_graph(one, {point: points})
    mode = pytensor.compile.Mode(linker="py", optimizer="fast_compile")
    function = pytensor.function([points], many, mode=mode)

    def log_density(points):
        with np.errstate(all="ignore"):
            parts = np.array_split(points, 1 + len(points) // 20_000)
            values = np.concatenate([function(part) for part in parts])
        return np.where(np.isnan(values), -np.inf, values)

    return log_density


@dataclass(frozen=True)
class Posterior:
    """Mean and variance of each parameter, and the log density beyond which `SHARE` is."""

    mean: np.ndarray
    variance: np.ndarray
    contour: float


def by_quadrature(log_density, n_parameters):
    """Integrate over a box of which a coarse look finds the part that matters."""
    lower, upper = np.full(n_parameters, -9.0), np.full(n_parameters, 9.0)
    size = 301 if n_parameters < 3 else 101
    for last in (False, False, False, True):
        n = size if last else 41
        axes = [np.linspace(a, b, n) for a, b in zip(lower, upper, strict=True)]
        points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
        log_p = log_density(points)
        if not last:
            inside = points[log_p > log_p.max() - 25.0]
            step = np.array([axis[1] - axis[0] for axis in axes])
            lower, upper = inside.min(axis=0) - step, inside.max(axis=0) + step
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    order = np.argsort(log_p)
    contour = log_p[order][np.searchsorted(np.cumsum(p[order]), SHARE)]
    mean = p @ points
    return Posterior(mean, p @ (points - mean) ** 2, float(contour))


def chain_draws(step, model, draws, *, tune=1000, transitions=10, seed=0):
    """Unconstrained parameters of one chain, shape (draws, D), with the rows read for each."""
    rng = np.random.default_rng(seed)
    step.setup_chain(rng, tune, draws)
    step.tune, point = True, model.initial_point()
    for _ in range(tune):
        point, _ = step.step(point)
    step.stop_tuning()
    step.step(point)
    chain, out = step.chain, []
    chain.take_queries()
    for _ in range(draws):
        chain.advance(rng, transitions, 0.0)
        out.append(chain.state.theta.copy())
    return np.stack(out), chain.take_queries() / draws


def errors_off(draws, log_density, posterior):
    """How many Monte Carlo errors the share beyond the contour is off, and means and variances.

    With them comes the share itself. Errors are from the effective sample size of what is averaged;
    that of a share is from the share that ought to be.
    """
    beyond = (log_density(draws) < posterior.contour).astype(float)
    share = beyond.mean()
    size = az.ess(beyond[None], method="mean") if 0.0 < share else az.ess(draws[None, :, 0])
    off = [(share - SHARE) / np.sqrt(SHARE * (1.0 - SHARE) / size)]
    centred = draws - posterior.mean
    for x, expected in ((draws, posterior.mean), (centred**2, posterior.variance)):
        error = np.array([az.mcse(each[None], method="mean") for each in x.T])
        off += [*((x.mean(axis=0) - expected) / error)]
    return share, np.array(off)
