"""Scheduled sampling (Bengio et al. 2015): in a share of the steps, the model reads what it wrote.

python examples/scheduled_sampling.py
"""

import torch
import torch.nn.functional as F

import seq2attn


def sampled(module, batch, share):
    """Compute the logits (B, L, V) of a batch, step by step."""
    memory, state = module.train().encode(batch.source, batch.source_lengths)
    logits = []
    for tokens in batch.decoder_input.unbind(1):  # (B,)
        if logits:
            written = logits[-1].argmax(1)
            tokens = written.where(torch.rand(len(tokens)) < share, tokens)
        decoded, state = module.step(tokens, state, memory)
        logits.append(decoded.logits.squeeze(1))
    return torch.stack(logits, 1)


def train(steps=600, share=0.25):
    """Train a model of configs/scaled.yaml; a run can be saved of it."""
    torch.set_num_threads(1)
    model = seq2attn.new_model("configs/scaled.yaml")
    optimiser = torch.optim.Adam(model.module.parameters(), lr=0.003)
    for _, batch in zip(range(steps), model.batches()):
        logits = sampled(model.module, batch, share)
        loss = F.cross_entropy(logits.mT, batch.decoder_output, ignore_index=0)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


if __name__ == "__main__":
    print(train().save("sampled"))
