"""Enumerate one or two batches of a proposal, over two partitions of a row each; run by the tests.

``NUMBA_DISABLE_JIT=1 python check_batches.py {one-batch,two-batches}``: as `check`. A chain keeps
the log weight of its (theta, z) and not z itself, so that its states are parameters with log
weights. Random numbers with the same key come out the same, as they do in a run: batches or
partitions that share a key share their choices.
"""

import itertools
import os
import sys
from functools import partial

os.environ["NUMBA_DISABLE_JIT"] = "1"

from types import SimpleNamespace

import numpy as np
from branching import BranchingGenerator, _Exponential, end_with_verdict, enumerate_branches
from logistic import expansion_of, log_likelihood_of

from pymc_flymc.bounds import Taylor
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.out_of_core import batch_chain, batch_target, proposals
from pymc_flymc.out_of_core import source as sources
from pymc_flymc.out_of_core.columns import ArrayColumn
from pymc_flymc.out_of_core.proposals import make_tables
from pymc_flymc.out_of_core.source import LocalSource
from pymc_flymc.regression.design import Design

N = 2
N_BATCHES = 1 if "one" in sys.argv[-1] else 2
V = np.array([-0.8, 0.9])  # lattice of the standardised parameter
CENTRE, FACTOR = 0.2, 0.8
ANCHOR, METRIC, LIMIT = 0.3, 0.7, 0.9
X = np.array([1.0, 2.5])
Y = np.array([1.0, 0.0])
KAPPA = np.abs(METRIC * X) ** 3 / 6 / (6 * np.sqrt(3)) * (1 + 1e-6)
KAPPA = np.column_stack([KAPPA, 20.0 * KAPPA]).astype(np.float32).astype(float)

log_likelihood = partial(log_likelihood_of, Y)
expansion = partial(expansion_of, X, Y, ANCHOR)


def rates_at(theta):
    radius = abs(theta - ANCHOR) / METRIC
    powers = np.array([radius**3, max(0.0, radius - LIMIT) ** 3])
    return KAPPA @ powers, powers


def density(theta, statistics):
    """Prior and expansions, without the remainders that fresh brightness cancels."""
    log_density = -0.5 * theta[0] ** 2 + np.sum(expansion(X * theta[0]))
    return theta[:1], log_density, *rates_at(theta[0])[1]


def log_factor(eta, constants, shared, out):
    theta = eta[:, 0] * ANCHOR / constants[:, 3]  # the predictor at the anchor comes fourth
    for i, t in enumerate(theta):
        n = int(np.argmin(np.abs(X * ANCHOR - constants[i, 3])))
        assert constants[i, 2] == Y[n]
        rates = rates_at(t)[0]
        out[i] = np.log(np.expm1((log_likelihood(X * t) - expansion(X * t) + rates)[n])) - rates[n]


class Keyed(BranchingGenerator):
    """Random numbers of a key: choices of a generator, the same ones when the key comes again."""

    def __init__(self, generator, record):
        self.generator, self.record, self.place = generator, record, 0

    def choose(self, probabilities):
        if self.place == len(self.record):
            self.record.append(self.generator.choose(probabilities))
        self.place += 1
        return self.record[self.place - 1]

    def standard_exponential(self, size):
        out = np.empty(size, dtype=object)
        out[:] = [_Exponential(self) for _ in range(size)]
        return out


def draw_v(rng, n, d):
    weights = np.exp(proposals.log_proposal_density(V[:, None]))
    return V[[rng.choose(list(weights / weights.sum()))]].reshape(n, d)


def log_weight(v, z):
    """Log of the augmented density over the density of a proposal, from their definitions."""
    theta = CENTRE + FACTOR * v
    rates, z = rates_at(theta)[0], np.array(z)
    likelihood = np.exp(log_likelihood(X * theta))
    bound = np.exp(expansion(X * theta) - rates)
    assert np.all(bound < likelihood)
    joint = -0.5 * theta**2 + np.sum(np.log(np.where(z, likelihood - bound, bound)))
    of_z = np.sum(np.where(z, np.log(-np.expm1(-rates)), -rates))
    return joint, float(joint - of_z - proposals.log_proposal_density(np.array([[v]]))[0])


def builder(values):
    return Design(values["X"], np.empty((0, 1)), False), values["y"]


def new_target():
    source = LocalSource({"X": ArrayColumn(X[:, None]), "y": ArrayColumn(Y)}, [0, 1, 2])
    proposer = object.__new__(proposals.Proposer)
    proposer.graph = SimpleNamespace(sizes=(1,))
    part = SimpleNamespace(
        bound=Taylor(),
        likelihood=BernoulliLogit(),
        statistics=np.empty(0),
        log_factor=SimpleNamespace(address=log_factor),
    )
    proposer.parts = (part,)
    proposer.geometry = dense_geometry(np.array([CENTRE]), np.array([[FACTOR]]))
    proposer._made = {}
    proposer._density = SimpleNamespace(address=density)
    tables = [make_tables(*KAPPA[n : n + 1].T.astype(np.float32)) for n in range(N)]
    rates = SimpleNamespace(w=np.array([ANCHOR]))
    weigher = batch_target.Weigher(proposer, rates, builder, 0)
    return batch_target.BatchTarget(source, proposer, [(weigher, tables)])


def branches(v, weight):
    def program(rng):
        records = {}

        def stream(key, batch, part):
            return Keyed(rng, records.setdefault((key, batch, part), []))

        for module in (proposals, batch_target, batch_chain):
            module.stream = stream
        chain = batch_chain.BatchChain(new_target())
        chain.key, chain.started = (1,), True
        chain.state = batch_chain.BatchState(np.array([v]), np.array([CENTRE + FACTOR * v]), weight)
        chain.advance(None, N_BATCHES, 0.0)
        return float(chain.state.v[0]), chain.state.log_weight

    return enumerate_branches(program)


if __name__ == "__main__":
    proposals.BATCH = batch_chain.BATCH = 1
    batch_chain.MOST_BATCHES = 1  # what comes behind the last one would be branches for nothing
    proposals.draw_v = draw_v
    sources.in_order = lambda work, items, n_items: map(work, items)  # without threads' ado
    states = list(itertools.product(V, itertools.product((0, 1), repeat=N)))
    joint, weights = np.array([log_weight(*state) for state in states]).T
    pi = np.exp(joint - joint.max())
    pi /= pi.sum()
    matrix = np.zeros((len(states), len(states)))
    for i, (v, _) in enumerate(states):
        for probability, (v_new, weight) in branches(v, weights[i]):
            same = [abs(v_new - other) < 1e-9 for other, _ in states]
            distance = np.where(same, np.abs(weights - weight), np.inf)
            assert distance.min() < 1e-9, "a weight that no brightness has"
            matrix[i, np.argmin(distance)] += probability
    end_with_verdict(sys.argv[1], pi, matrix)
