"""Native transition kernels. All leave the joint distribution of (theta, z) invariant.

Read the modules in this order. `records` are the arguments of kernels, `layout` gives places in
their arrays, and `native` compiles them. `rows` and `sparse_effects` are predictors of rows, and
`factors` reads likelihoods. `native_graphs` is the model's density, `geometry` the coordinates, and
`posterior` all of these together, with the conditional Metropolis test. `brightness` is the set of
bright rows; `sweeps` update z given theta, with `dark_rates`. Then the kernels: `metropolis` and
`slice`; `hamiltonian`, with `trajectory` and `step_size`; `joint`, with `fresh_brightness`;
`surrogate`, with `surrogate_density`, which combines trajectories and joint updates; and `local`,
with `group_effects` and `group_brightness`. All but `local` begin a draw with `rescaling`, moves of
`shared_scales` and along `shifts`. `quadratic` evaluates collapsed sums, and `radius_powers` other
numbers that rows share. `row_terms` is for checks, and `caching` decides where compiled code is
kept.
"""
