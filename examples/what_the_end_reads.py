"""How much the context of the step after the last letter resembles those of the letters, for each
family of strings.

    python examples/what_the_end_reads.py reverse-location-seed_1 80

Prints, for 50 strings of each family: the cosine between that step's context and the most similar
one of all letters' steps, on average; the same with the mean of the letters' contexts; and on how
many strings the model writes <eos> there. The decoder is given the right letters, so that every
string reaches its end.
"""

import torch
import typer

import seq2attn
from seq2attn.data.batches import generator, make_batch
from seq2attn.data.vocabulary import EOS
from seq2attn.parts import FAMILIES

STRINGS = 50


@torch.no_grad()
def contexts_of(model, batch):
    """The contexts of all steps (B, L, Dv), and the letters that are written (B, L)."""
    memory, state = model.encode(batch.source, batch.source_lengths)
    contexts, written = [], []
    for token in batch.decoder_input.unbind(1):
        decoded, state = model.step(token, state, memory)
        contexts.append(decoded.weights @ memory.values)
        written.append(decoded.logits.argmax(dim=2))
    return torch.cat(contexts, dim=1), torch.cat(written, dim=1)


def main(name: str, length: int, folder: str = "runs"):
    """Print a line for each family."""
    predictor = seq2attn.load(name, runs_dir=folder, checkpoint="last", device="cpu").predictor
    for family in FAMILIES.names():
        random = generator(torch.device("cpu"), 0, "example", family)
        examples = predictor.task.family(family, random, STRINGS, length)
        batch = make_batch(examples, source_eos=predictor.source_eos)
        contexts, written = contexts_of(predictor.model, batch)
        letters, end = contexts[:, :-1], contexts[:, -1:]
        nearest = torch.cosine_similarity(letters, end, dim=2).max(dim=1).values.mean()
        mean = torch.cosine_similarity(letters.mean(dim=1), end[:, 0], dim=1).mean()
        ends = int((written[:, -1] == EOS).sum())
        print(
            f"{family}: nearest letter {nearest:.2f}, mean of the letters {mean:.2f}, <eos> {ends}"
        )


if __name__ == "__main__":
    typer.run(main)
