"""Native transition kernels. Each leaves the joint distribution of (theta, z) invariant.

To be read in this order: `records`, what kernels are handed, with `layout`, what stands where, and
`native`, how they are compiled; `rows` with `sparse_effects`, predictors of rows, and `factors`,
where likelihoods are read; `native_graphs`, the model's own, `geometry`, the coordinates, and
`posterior`, all of these together, with the conditional Metropolis test; `brightness`, the set of
bright rows, `sweeps`, updates of z given theta, and `dark_rates`. Then the kernels: `metropolis`
and `slice`; `hamiltonian`, with `trajectory` and `step_size`; `joint`, with `fresh_brightness`;
`surrogate`, with `surrogate_density`, which has something of each; and `local`, with
`group_effects` and `group_brightness`. All but the last begin a draw with `rescaling`, moves of
`shared_scales`. `quadratic` sums what collapses, and `radius_powers` has what rows share beside it;
`row_terms` is for checks, and `caching` says where compiled code is kept.
"""
