"""PyTensor graphs: tools to take them apart, and what compiles them into machine code."""
