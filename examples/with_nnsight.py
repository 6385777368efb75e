"""A run's model under nnsight, which works on it unchanged: read, and patch, what any of its
modules returns.

pip install nnsight
python examples/with_nnsight.py scaled-001 hello
"""

import torch
import typer
from nnsight import NNsight

import seq2attn
from seq2attn.data.batches import make_batch


def main(run: str, text: str):
    """Print the position that each step attends to most, and the answer without what the encoder
    read.
    """
    model = seq2attn.load(run, device="cpu")
    task, answer = model.task, model.predict(text)
    examples = task.encode([(text, answer.output)], torch.device("cpu"))
    batch = make_batch(
        examples, source_eos=model.config.model.source_eos
    )  # teacher forcing with its own answer
    inside = NNsight(model.module)
    with inside.trace(batch) as tracer:
        positions = [].save()
        for _ in tracer.iter[: len(answer.output_symbols)]:  # a call of the attention for each step
            positions.append(inside.decoder.attention.output.weights.argmax())
    with inside.trace(batch):
        encoded = inside.encoder.output
        inside.encoder.output = encoded._replace(states=torch.zeros_like(encoded.states))
        logits = inside.output.logits.save()
    print("attends to", [int(position) for position in positions])
    print(
        "without the encoder",
        "".join(map(task.target_vocabulary.symbol, logits.argmax(dim=2)[0].tolist())),
    )


if __name__ == "__main__":
    typer.run(main)
