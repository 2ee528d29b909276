"""What a step has read of a model, compared with the model itself, before it samples."""
