"""The field, measured: Firefly among other methods for tall data, on the same two posteriors."""
