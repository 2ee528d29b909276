"""The clock of all methods."""

from __future__ import annotations

import time

__all__ = ["clock"]

#: Seconds of processor time, of all threads: what else the machine does disturbs them little.
clock = time.process_time
