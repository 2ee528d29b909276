"""The rows of a regression in numbers: designs, passes over them, sums that collapse."""
