"""Native transition kernels. Each leaves the joint law of (theta, z) invariant."""
