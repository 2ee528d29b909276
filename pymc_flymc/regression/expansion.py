"""Log-likelihoods to second order in their coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_flymc.regression.matrices import SymmetricMatrix
from pymc_flymc.regression.quadratic_statistics import pack_quadratic


@dataclass(frozen=True)
class LikelihoodExpansion:
    """Log-likelihood of all rows around coefficients w, to second order."""

    value: float  #: Log-likelihood at w.
    gradient: np.ndarray
    information: SymmetricMatrix  #: Minus the Hessian.
    w: np.ndarray
    #: Information that rows lack far from the mode, if any do.
    missing: SymmetricMatrix | None = None

    def pack(self) -> np.ndarray:
        """Return the expansion as the statistics of a collapsed quadratic."""
        return pack_quadratic(self.value, self.w, self.gradient, 0.5 * self.information)


@dataclass(frozen=True)
class JointExpansion:
    """Sum of several regressions' log-likelihoods to second order, each in its coefficients."""

    parts: tuple[LikelihoodExpansion, ...]

    @property
    def value(self) -> float:
        """Return the log-likelihood at the point of expansion."""
        return sum(part.value for part in self.parts)

    def pack(self) -> np.ndarray:
        """Return the statistics of collapsed quadratics, one after the other."""
        return np.concatenate([part.pack() for part in self.parts])

    def _with(self, matrices: Sequence[SymmetricMatrix]) -> JointExpansion:
        pairs = zip(self.parts, matrices, strict=True)
        return JointExpansion(tuple(replace(part, information=each) for part, each in pairs))

    def concave(self) -> JointExpansion:
        """Return the sum with the curvature's sign changed where it is not concave."""
        return self._with([part.information.concave() for part in self.parts])

    @property
    def lacks_curvature(self) -> bool:
        """Return whether quadratics of rows exceed what log-likelihoods can reach."""
        return any(part.missing is not None for part in self.parts)

    def cautious(self) -> JointExpansion:
        """Return the sum with the curvature that rows lack added to it."""
        if not self.lacks_curvature:
            return self
        pairs = [(part.information, part.missing) for part in self.parts]
        return self._with([own if missing is None else own + missing for own, missing in pairs])

    def damped(self, factor: float, other: JointExpansion) -> JointExpansion:
        """Return the sum with another sum's curvature, times a factor, added to its curvature."""
        pairs = zip(self.parts, other.parts, strict=True)
        return self._with([a.information + factor * b.information for a, b in pairs])

    def flat(self) -> JointExpansion:
        """Return the expansion of log-likelihoods that are zero everywhere, of the same shapes."""

        def zero(part: LikelihoodExpansion) -> LikelihoodExpansion:
            nothing = np.zeros_like(part.gradient)
            return LikelihoodExpansion(0.0, nothing, 0.0 * part.information, part.w)

        return JointExpansion(tuple(zero(part) for part in self.parts))
