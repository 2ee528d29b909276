"""The setting of bounds: one for all likelihoods, or a dict of them."""

from collections.abc import Mapping, Sequence

from pymc_flymc.bounds import AllRows, Bound, is_bound
from pymc_flymc.regression.regression import Regression
from pymc_flymc.settings import check_object

#: A bound for all likelihoods, or a dict of bounds by the names of observed variables.
BoundSetting = Bound | str | None | Mapping[str, Bound | str | None]


def check_bound_setting(bound: object) -> None:
    """Refuse settings other than a bound, None, "auto", or a dict of these."""
    for name, each in bound.items() if isinstance(bound, Mapping) else [("", bound)]:
        if each is not None and not (isinstance(each, str) and each == "auto"):
            setting = f"bound[{name!r}]" if name else "bound"
            check_object(setting, each, is_bound, "a bound, such as Taylor(), None or 'auto'")


def bounds_asked(bound: BoundSetting, regressions: Sequence[Regression]) -> list[Bound | str]:
    """Return the bound asked for each likelihood of a model, or "auto", before any pass over data.

    Raises
    ------
    ValueError
        If a bound does not support its likelihood.
    """
    settings = settings_of(bound, [regression.name for regression in regressions])
    for regression, asked in zip(regressions, settings, strict=True):
        if not (isinstance(asked, str) or asked.supports(regression.likelihood)):
            raise ValueError(
                f"the {asked.name} bound is not one on {regression.likelihood.name} likelihoods, "
                f"such as that of {regression.name!r}; bound='auto' takes one that is"
            )
    return settings


def settings_of(bound: BoundSetting, names: Sequence[str]) -> list[Bound | str]:
    """Return the bound asked for each likelihood, or "auto".

    Raises
    ------
    ValueError
        If one is asked for a variable that is not among them, or if only some have none.
    """
    if not isinstance(bound, Mapping):
        return [AllRows() if bound is None else bound] * len(names)
    for name in bound:
        if name not in names:
            raise ValueError(
                f"bound= names {name!r}; the observed variables whose rows are subsampled are "
                f"{', '.join(map(repr, names))}"
            )
    settings = [bound.get(name, "auto") for name in names]
    if None in settings and any(setting is not None for setting in settings):
        # The brightness of all rows is resampled in the same way; without a bound there is none.
        alone = names[settings.index(None)]
        raise ValueError(f"bound=None is for all likelihoods or for none, not for {alone!r} alone")
    return [AllRows() if setting is None else setting for setting in settings]
