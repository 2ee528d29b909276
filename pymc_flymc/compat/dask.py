"""Private parts of Dask, which need not be installed: they are looked up when they are used."""

from collections.abc import Callable, Sequence
from typing import Any

from pymc_flymc.compat import private, require


def keep_tasks_home(prefixes: Sequence[str]) -> Callable[[], None]:
    """Return a function that tells a scheduler which tasks idle workers are not to steal.

    Parameters
    ----------
    prefixes : sequence of str
        With what the names of the tasks begin.
    """
    # The scheduler is of the same version as its client.
    lost = "workers of a cluster copy each other's rows"
    private("distributed.stealing:fast_tasks", lost)

    def keep() -> None:  # travels by value: a scheduler need not have this package
        from distributed.stealing import fast_tasks

        fast_tasks.update(prefixes)

    return keep


def without_rows(frame: Any) -> Any:
    """Return the columns of a data frame of Dask's as those of pandas, without rows."""
    meta = getattr(frame, "_meta", None)
    require(meta is not None, "dask.dataframe.DataFrame._meta", "data frames of Dask's are no data")
    return meta
