"""Sharpness-aware minimisation (Foret et al. 2021) beside Adam: two training loops, compared over
three seeds.

python examples/sharpness_aware.py
"""

import torch

import seq2attn


def adam(model, rho=0.0):
    """Train by Adam; with `rho`, by the gradient where the loss is largest within that distance."""
    weights = list(model.module.parameters())
    optimiser = torch.optim.Adam(weights, lr=0.003)
    for step, batch in zip(range(600), model.batches()):
        optimiser.zero_grad()
        model.loss(batch, step=step).backward()
        if rho:
            norm = torch.nn.utils.get_total_norm([weight.grad for weight in weights])
            moves = [rho * weight.grad / norm for weight in weights]
            for weight, move in zip(weights, moves, strict=True):
                weight.data += move
            optimiser.zero_grad()
            model.loss(batch, step=step).backward()  # the same step: the same dropout
            for weight, move in zip(weights, moves, strict=True):
                weight.data -= move
        optimiser.step()


def sam(model):
    """Train by sharpness-aware minimisation."""
    adam(model, rho=0.05)


if __name__ == "__main__":
    loops = {"adam": adam, "sam": sam}
    print(seq2attn.compare(configs=["configs/scaled.yaml"], vary="seed=1-3", train=loops))
