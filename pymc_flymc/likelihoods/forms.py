"""Declarations of a family about its log-likelihood, and whether they still hold."""

from collections.abc import Sequence

from pymc_flymc.likelihoods.likelihood import Likelihood

#: Forms of log-likelihoods, the attribute `form` of a family, that bounds rely on: with predictor
#: eta and y = 0 or 1, or columns of successes s and trials m, ``s eta - m log(1 + exp(eta))``;
LOGISTIC = "logistic"
#: with nuisance parameter log alpha and counts y, ``y psi - (y + alpha) log(1 + exp(psi)) +
#: log Gamma(y + alpha) - log Gamma(alpha)``;
NEGATIVE_BINOMIAL = "negative binomial"
#: with predictors of classes 1 to K - 1, less class 0's, the logarithm of the softmax of y.
SOFTMAX = "softmax"


def says(likelihood: Likelihood, name: str, of: Sequence[str] = ("log_likelihood",)) -> bool:
    """Return whether a family's attribute `name` was declared for its current methods `of`.

    A subclass that overrides the log-likelihood must repeat declarations of its base class.
    """
    kinds = type(likelihood).__mro__

    def first(name: str) -> int:
        return next((i for i, kind in enumerate(kinds) if name in vars(kind)), len(kinds))

    said = first(name)
    return said < len(kinds) and all(said <= first(method) for method in of)


def form_of(likelihood: Likelihood) -> str | None:
    """Return the form of a family's log-likelihood, or None if no declaration holds."""
    return str(likelihood.form) if says(likelihood, "form") else None  # type: ignore[attr-defined]
