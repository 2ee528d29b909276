"""Where bounds are tuned to, and the Laplace approximation there."""
