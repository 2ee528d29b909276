"""Benchmarks: tables for chosen problems, rows read against N, memory and start-up time."""
