"""The model: every formula once, in plain PyTorch.

Read it in this order: `scores`, `normalisers`, `windows`, `histories` and `monotonic` (which
positions of the source matter), `attention` (weights and contexts), `cells` (one recurrent step),
`encoder`, `decoder` (the arrangements, and all together). `interface` is what the rest of the
package calls, `points` lets others see values and change them, and `resets` changes states in
training. `transformer` is the other architecture.

Whatever is changed here, by a subclass, a replaced method or a hook, is what trains, evaluates and
predicts: training may use a faster form of these formulas only as long as it gives the same
numbers.
"""
