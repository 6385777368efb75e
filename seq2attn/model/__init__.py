"""The model: every formula once, in plain PyTorch.

Read it in this order: `scores`, `normalisers` (and windows), `histories` (which positions of the
source matter), `attention` (weights and contexts), `cells` (one recurrent step, and resets),
`encoder`, `decoder` (the arrangements, and all together), `monotonic` (attention that only
advances). `interface` is what the rest of the package calls, with the losses, and `points` lets
others see values and change them. `transformer` is the other architecture.

Whatever is changed here, by a subclass, a replaced method or a hook, is what trains, evaluates and
predicts: training may use a faster form of these formulas only as long as it gives the same
numbers.
"""
