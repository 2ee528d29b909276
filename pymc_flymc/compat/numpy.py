"""Private parts of NumPy."""

import mmap
from typing import Any

import numpy as np

from pymc_flymc.compat import require


def drop_pages(array: np.memmap) -> None:
    """Release the pages of a memory map to the operating system, which can read them again."""
    pages: Any = getattr(array, "_mmap", None)
    require(pages is not None, "np.memmap._mmap", "files that are read stay in memory")
    pages.madvise(mmap.MADV_DONTNEED)
