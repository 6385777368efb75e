"""How much gradient the softmax of attention lets through, at kept steps of training.

    python examples/softmax_gradient.py width-kept-hidden_64-dot-seed_1 ...

For each run and step, on 500 strings of 8 letters, the right ones given to the decoder: the
standard deviation of the scores over keys; the entropy of the weights a, in nats; the norm of the
softmax's Jacobian, diag(a) - a a^T (all three are means over queries); the norm of the loss's
gradient with respect to the scores, divided by that with respect to the weights.
"""

import torch
import torch.nn.functional as F
import typer

import seq2attn
from seq2attn.data.batches import generator, make_batch


def measure(model):
    """The four numbers of a model."""
    examples = model.task.examples(generator(torch.device("cpu"), 0, "example"), 500, 8)
    batch, steps = make_batch(examples, source_eos=model.predictor.source_eos), []
    model.module.decoder.attention.register_forward_hook(
        lambda part, given, found: steps.append(found[1:3])
    )
    logits = model.module(batch).logits
    for one in sum(steps, ()):
        one.retain_grad()
    F.cross_entropy(logits.mT, batch.decoder_output).backward()
    weights, scores = (
        torch.cat(parts, dim=1).detach() for parts in zip(*steps, strict=True)
    )  # (B, L, S)
    before, behind = (
        torch.cat([one.grad for one in parts]).norm() for parts in zip(*steps, strict=True)
    )
    square = weights.square().sum(dim=2)  # (B, L)
    jacobian = (square - 2 * weights.pow(3).sum(dim=2) + square.square()).clamp(min=0).sqrt()
    entropy = torch.special.entr(weights).sum(dim=2)
    return scores.std(dim=2, correction=0).mean(), entropy.mean(), jacobian.mean(), behind / before


def main(names: list[str], folder: str = "runs"):
    """Print a line for each run and step."""
    for name in names:
        for step in (1, 125, 375, 1000, 2500):
            model = seq2attn.load(name, runs_dir=folder, checkpoint=f"step-{step}", device="cpu")
            numbers = measure(model)
            print(name, step, *(f"{number:.3f}" for number in numbers), sep="\t")


if __name__ == "__main__":
    typer.run(main)
