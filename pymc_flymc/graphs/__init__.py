"""PyTensor graphs: tools to take them apart, and their compilation into machine code."""
