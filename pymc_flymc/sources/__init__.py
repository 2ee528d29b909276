"""Rows wherever they lie: arrays in memory and on disk, and work on parts of them."""
