"""Native transition kernels. Each leaves the joint distribution of (theta, z) invariant."""
