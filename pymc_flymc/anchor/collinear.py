"""Lines along which the posterior is wide because columns are nearly multiples of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.maximum import conditional_sds
from pymc_flymc.anchor.objective import Objective, PrecisionBlocks
from pymc_flymc.order import n_largest
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.regression import slices_of

#: Most parameters that a message names, and the least share of a named one in a line.
NAMED, LEAST_SHARE = 4, 0.1


@dataclass(frozen=True)
class Lines:
    """Eigenvectors of the precision, of parameters in units of their conditional sds."""

    objective: Objective
    theta: np.ndarray  #: Where the precision was computed.
    values: np.ndarray  #: Eigenvalues, in ascending order, (L,).
    vectors: np.ndarray  #: Eigenvectors, of the dense elements, (L, M).
    #: The same in units of the parameters, (L, D); effects of groups follow by their means.
    directions: np.ndarray

    @classmethod
    def of(
        cls, objective: Objective, theta: np.ndarray, blocks: PrecisionBlocks, largest: float
    ) -> Lines:
        """Return the lines with eigenvalues smaller than `largest`, from the precision there."""
        effects = objective.effects
        precision, follow = blocks.of_dense()
        scale = conditional_sds(blocks.block)
        values, vectors = np.linalg.eigh(scale[:, None] * precision * scale)
        small = values < largest
        directions = np.zeros((np.count_nonzero(small), len(theta)))
        along = scale[:, None] * vectors[:, small]
        directions[:, effects.dense] = along.T
        directions[:, effects.diagonal] = (follow @ along).T
        return cls(objective, theta, values[small], vectors[:, small].T, directions)

    def terms(self, expansion: JointExpansion) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows' curvature along each line, and the sum of its terms' absolute values."""
        posterior = self.objective.posterior
        spans, found = slices_of(posterior.regressions), np.zeros((len(self.directions), 2))
        for total, v in zip(found, self.directions, strict=True):
            u = posterior.density.pushforward(self.theta, v)
            for part, span in zip(expansion.parts, spans, strict=True):
                total += part.information.form(u[span])
        return found[:, 0], found[:, 1]

    def described(self, i: int) -> str:
        """Return which parameters' columns are nearly multiples of each other, and how nearly."""
        weights = np.abs(self.vectors[i])
        places = n_largest(weights, NAMED)
        describe = self.objective.posterior.layout.describe
        dense = self.objective.effects.dense
        names = [describe(int(dense[k])) for k in places if weights[k] > LEAST_SHARE]
        left = np.sqrt(max(float(self.values[i]), float(np.finfo(np.float64).eps)))
        return (
            f"the columns that {', '.join(names)} multiply are collinear but for about "
            f"{left:.1g} of their size"
        )
