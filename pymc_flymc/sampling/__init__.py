"""Chains: their state, their tuning, and the choice of the bound and the kernel.

To be read in this order: `chain`, one chain; `adaptation`, what each kernel learns while a chain
tunes, by windows of draws that `tuning` counts out; `sampler`, which makes chains and lets them
learn, and moves their anchors by `reanchoring`. `choice` makes a sampler for a task, which is what
``bound="auto"`` and ``kernel="auto"`` do: by `bound_choice`, by `local_sweeps` for sweeps over
groups, and among the `candidates` by what they usually cost (`costs`) and by `proposal_weights`.
`diagnostics` warns of chains that do not mix.
"""
