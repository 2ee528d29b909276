"""Native transition kernels. All leave the joint distribution of (theta, z) invariant.

Read the modules in this order. `layout` gives places in the arrays that kernels are given, and
`native` compiles them, and calls the model's density. `rows` are predictors of rows, and `factors`
reads likelihoods. `collapsed` are sums of bounds; `geometry` the coordinates, with
`following`, and `posterior` all of these together, with the conditional Metropolis test.
`brightness` is the set of bright rows; `sweeps` update z given theta, with `dark_rates`. Then the
kernels: `metropolis` and `slice`; `hamiltonian`, with `trajectory`; `joint`, with
`fresh_brightness`; `surrogate`, which combines trajectories and joint updates; and `local`. All but
`local` begin a draw with `rescaling`, moves of `shared_scales` and along `shifts`.
"""
