"""The rows of a regression as numbers: designs, passes over them, sums that collapse."""
