"""Curvatures of effects are found in a few products with the Hessian, and exact if they can be."""

import numpy as np
import pytest

from pymc_flymc.anchor.effects import PROBES, Effects, Probes, proper

J, K, DENSE = 40, 2, 3  # groups, effects of each, other parameters


def effects():
    slopes = DENSE + np.arange(J * K).reshape(J, K).T
    diagonal = slopes.ravel()
    return Effects(diagonal, np.arange(DENSE), diagonal, list(slopes), [], [(0, K, J)])


def precision(coupled):
    """Of the effects of each group, of others with all of them, and of two groups if coupled."""
    rng, size = np.random.default_rng(3), DENSE + J * K
    matrix = np.zeros((size, size))
    matrix[:DENSE, :] = rng.normal(size=(DENSE, size))
    for j in range(J):
        root = rng.normal(size=(K, K))
        span = slice(DENSE + j * K, DENSE + (j + 1) * K)
        matrix[span, span] = root @ root.T + np.eye(K)
    if coupled:  # as of attack and defence: no two effects of one kind are in a row
        matrix[DENSE, DENSE + 2 * K - 1] = 0.3
    return np.triu(matrix) + np.triu(matrix, 1).T


def products(matrix):
    """The product of minus a matrix with a vector, and a list that grows with each."""
    made = []

    def times(v):
        made.append(v)
        return -matrix @ v

    return times, made


@pytest.mark.parametrize("coupled", [False, True])
def test_each_direction_is_probed_once_when_it_is_known_whether_groups_are_coupled(coupled):
    matrix, probes = precision(coupled), Probes(effects())
    counts = []
    for _ in range(3):
        times, made = products(matrix)
        found = probes(times, len(matrix))
        counts.append(len(made))
        np.testing.assert_allclose(found.diagonal[DENSE:], np.diag(matrix)[DENSE:])
        blocks = proper(found, effects().diagonal)
        assert len(blocks) == (0 if coupled else 1)
        for _, each in blocks:
            groups = [matrix[DENSE + j * K :, DENSE + j * K :][:K, :K] for j in range(J)]
            np.testing.assert_allclose(each, groups)
    assert counts == [PROBES, K, K]


def test_probes_that_disagree_are_repeated_each_time():
    """The diagonal is then right on average only: fewer probes would be less so."""
    matrix = precision(coupled=False)
    matrix[DENSE, DENSE + K] = matrix[DENSE + K, DENSE] = 0.3  # intercepts of two groups
    probes = Probes(effects())
    for _ in range(2):
        times, made = products(matrix)
        assert not probes(times, len(matrix)).blocks
        assert len(made) == PROBES
