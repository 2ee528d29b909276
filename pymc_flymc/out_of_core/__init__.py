"""Rows that do not fit into memory: sampled from where they lie, by ``data=``."""
