"""Models that are put together at random, as people write them, and compared with NUTS."""
