"""Benchmarks: one table for a chosen problem, and measurements of memory and start-up time."""
