"""Private parts of Dask, which is optional: they are looked up when they are used."""

from collections.abc import Callable, Sequence
from typing import Any

from pymc_flymc.compat import private, require


def keep_tasks_home(prefixes: Sequence[str]) -> Callable[[], None]:
    """Return a function that keeps idle workers from stealing tasks with these prefixes."""
    # The scheduler has the same version as its client.
    lost = "workers of a cluster copy each other's rows"
    private("distributed.stealing:fast_tasks", lost)

    def keep() -> None:  # pickled by value: a scheduler need not have this package
        from distributed.stealing import fast_tasks

        fast_tasks.update(prefixes)

    return keep


def without_rows(frame: Any) -> Any:
    """Return the columns of a Dask data frame as those of pandas, without rows."""
    meta = getattr(frame, "_meta", None)
    require(meta is not None, "dask.dataframe.DataFrame._meta", "data frames of Dask's are no data")
    return meta
