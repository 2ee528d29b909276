"""The augmented density, ready for kernels: its graphs, tables and shared data."""
