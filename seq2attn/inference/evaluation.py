"""Measures a model by string length on strings that its task draws, or on the pairs of a file."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.data.batches import Batch, generator
from seq2attn.data.format import Pair
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import EOS, PAD
from seq2attn.inference.decoding import Decoding
from seq2attn.inference.predictor import Predictor
from seq2attn.model.points import of_strings
from seq2attn.parts import RANDOM
from seq2attn.results.answers import PairAnswer, align
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.metrics import Row, rows_of
from seq2attn.results.statistics import Estimate, bootstrap

BLOCK = 1000  # examples drawn together at most
CELLS = 2**20  # characters of their sources at most, except for a single example


def evaluate(
    predictor: Predictor,
    lengths: Sequence[int],
    *,
    samples: int,
    seed: int | str,
    families: Sequence[str] = (RANDOM,),
    errors: bool = False,
    watch: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure `samples` strings of each family and length: a row of the evaluation for each metric
    of each of these.

    The strings depend only on seed, task, family and length: every model is tested on the same
    ones. Raises `Seq2AttnError` for a family or length that the task does not have.

    errors: True to keep the wrong answers; otherwise memory does not grow with `samples`.
    watch: called after each length of a family; may raise to stop.
    """
    # of lengths nothing is checked here: the task refuses one when its strings are drawn
    predictor.task.check_evaluation(families, ())
    rows: list[Row] = []
    wrong: list[PairAnswer] = []

    for family, length in product(families, lengths):
        totals: dict[str, float] = defaultdict(float)  # metric -> its sum over the strings
        for numbers, batch in _batches(predictor, family, length, samples, seed):
            # Greedy decoding stops at the length of the longest target: an output that goes on is
            # wrong. But errors are shown whole, and with a beam a shorter hypothesis may still
            # overtake a longer one.
            to_end = errors or predictor.search is not None
            with of_strings(numbers):  # tells hooks which strings these are
                decoding = predictor.decode(
                    batch.source,
                    batch.source_lengths,
                    max_steps=None if to_end else batch.decoder_output.size(1),
                )
                metrics, _ = _measure(predictor, batch, decoding.tokens[:, 0])
            for name, values in metrics.items():
                totals[name] += float(values.double().sum())
            if errors:
                pairs = _texts(predictor.task, batch, length)
                answers = _compare(predictor, pairs, batch, decoding)
                is_right = metrics["exact_match"].tolist()
                wrong += [one for one, right in zip(answers, is_right, strict=True) if not right]

        means = {name: total / samples for name, total in totals.items()}
        rows += rows_of(
            means,
            [1] * samples,
            length=length,
            trained=predictor.task.is_trained(length),
            family=family,
        )
        if watch is not None:
            watch()

    return Evaluation(tuple(rows), tuple(wrong))


def evaluate_pairs(
    predictor: Predictor,
    pairs: Sequence[Pair],
    *,
    tokens: bool = False,
) -> Evaluation:
    """Measure the model on pairs, at least one: error rates and loss of all, and the other metrics
    by source length. The evaluation keeps an answer to each source, too.

    What is counted, a word, is a different source, or with `tokens` a pair. If a source has several
    right answers, the model's is compared with the one closest to it. Confidence intervals treat
    sources as independent, not words: the pairs of a source share its answer.
    """
    answers, metrics, loss = _measure_pairs(predictor, pairs)
    kept = _one_of_each_source(answers, tokens=tokens)
    found = tuple(kept.values())
    counts = [answer.words for answer in found]  # how often each answer counts
    rows = rows_of(
        error_rates(found) | {"loss": loss},  # the loss is of all pairs, whichever counts
        counts,
        length=None,
        trained=True,  # False would mark a length that was not trained; this row is of all lengths
        family=None,
    )

    by_length: dict[int, list[int]] = defaultdict(list)
    for index, answer in kept.items():
        by_length[answer.source_length].append(index)

    for length, indices in sorted(by_length.items()):
        counts = [kept[index].words for index in indices]
        means = {}
        for name, values in metrics.items():
            means[name] = float(np.average(values[indices], weights=counts))
        rows += rows_of(
            means,
            counts,
            length=length,
            trained=predictor.task.is_trained(length),
            family=None,
        )
    return Evaluation(tuple(rows), found)


def _one_of_each_source(answers: Sequence[PairAnswer], *, tokens: bool) -> dict[int, PairAnswer]:
    """Return one of the answers to each source by its index: that of the pair whose right answer
    takes the fewest edits. The model wrote the same for all pairs of a source; only what is right
    differs.

    tokens: True to count each pair as a word (`words`), False to count each source.
    """
    by_source: dict[str, list[int]] = defaultdict(list)  # the pairs of each source
    for index, answer in enumerate(answers):
        by_source[answer.source].append(index)
    kept = {}
    for same in by_source.values():
        closest = min(same, key=lambda index: len(answers[index].edits))
        others = {answers[index].right for index in same} - {answers[closest].right}
        kept[closest] = replace(
            answers[closest],
            others=tuple(sorted(others)),
            words=len(same) if tokens else 1,
        )
    return kept


def _measure_pairs(
    predictor: Predictor,
    pairs: Sequence[Pair],
) -> tuple[list[PairAnswer], dict[str, Tensor], float]:
    """Return the answer to each of N pairs, metrics (N,) by name, and the mean loss of a symbol, in
    nats.

    Pairs are measured in batches of sources of one length; results are in the order of the pairs.
    """
    task = predictor.task
    count = len(pairs)
    answers: dict[int, PairAnswer] = {}
    metrics: dict[str, Tensor] = defaultdict(lambda: torch.zeros(count, dtype=torch.float64))
    loss = symbols = 0.0  # of all pairs: the sum over their symbols, and how many these are

    lengths = [len(task.source_vocabulary.encode(source)) for source, _ in pairs]
    for indices in predictor.decoded_together(lengths):
        chosen = [pairs[index] for index in indices]
        batch = predictor.batch(task.encode(chosen, predictor.device))

        with of_strings(indices):  # tells hooks which pairs these are
            decoding = predictor.decode(batch.source, batch.source_lengths)
            measured, losses = _measure(predictor, batch, decoding.tokens[:, 0])

        for name, values in measured.items():
            metrics[name][indices] = values.double().cpu()
        loss += float(losses.double().sum())
        symbols += int(batch.decoder_lengths.sum())  # with each <eos>, as the losses

        compared = _compare(predictor, chosen, batch, decoding)
        for index, answer in zip(indices, compared, strict=True):
            answers[index] = answer
            # by the text, not by ids: `<unk>` is no symbol, but may have copied one
            metrics["exact_match"][index] = answer.is_right

    in_order = [answers[index] for index in range(count)]
    return in_order, metrics, loss / symbols


def error_rates(answers: Sequence[PairAnswer]) -> dict[str, Estimate | float]:
    """Compute the word and the symbol error rate, and the share of answers cut off, by the names of
    these metrics; the symbol error rate with its interval.

    An answer counts `words` times, since several lines of a file may share it.
    """
    counts = np.array([answer.words for answer in answers])  # (N,)
    edits = [len(answer.edits) for answer in answers]
    symbols = [answer.right_length for answer in answers]
    ser = bootstrap(counts * edits, counts * symbols)  # the sum of edits over that of symbols
    wrong = [not answer.is_right for answer in answers]
    cut_off = [not answer.finished for answer in answers]
    return {
        "wer": float(np.average(wrong, weights=counts)),
        "cut_off": float(np.average(cut_off, weights=counts)),
        "ser": ser,
    }


def _batches(
    predictor: Predictor,
    family: str,
    length: int,
    samples: int,
    seed: int | str,
) -> Iterator[tuple[range, Batch]]:
    """Yield `samples` examples of one family and length in batches on the predictor's device, each
    with the numbers of its examples. They are drawn in blocks, so that a larger sample begins with
    the examples of a smaller one.
    """
    rows = predictor.rows_at_once(length)  # of a batch, which is part of a block
    # Rows of a block: at most `BLOCK`, and `CELLS` characters. They do not depend on `samples`:
    # blocks are drawn whole.
    block = max(1, min(BLOCK, CELLS // length))

    for first in range(0, samples, block):
        # (the family `random` is left out, so that its strings stay those of versions that had no
        # families yet)
        key = (length, first) if family == RANDOM else (family, length, first)
        random = generator("cpu", seed, "evaluation", *key)
        examples = predictor.task.family(family, random, block, length)
        # the whole block if at least so many are still wanted, else its first rows
        drawn = predictor.batch(examples).select(slice(samples - first))

        for start in range(0, len(drawn.source), rows):
            batch = drawn.select(slice(start, start + rows)).to(predictor.device)
            yield range(first + start, first + start + len(batch.source)), batch


# ---- metrics of each string ----


def _measure(
    predictor: Predictor,
    batch: Batch,
    outputs: Tensor,
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute the metrics of each string by name, and the sum of its losses: (B,) each.

    Exact match, 1 or 0, is of the whole output; the others are means over the characters of the
    right output: shares of those characters, and the entropy of their attention weights in nats.
    Losses are -ln p of symbols under teacher forcing, in nats, that of `<eos>` included.

    outputs: (B, T) ids that the model has written.
    """
    targets = batch.decoder_output  # (B, L) characters, <eos>, padding
    is_character = targets > EOS  # neither <eos> nor padding
    is_padding = targets == PAD

    forced, losses = predictor.forced(batch)
    # how many columns outputs lack; if it is below 0, `pad` cuts off so many
    missing = targets.size(1) - outputs.size(1)
    is_right = F.pad(outputs, (0, missing), value=PAD) == targets  # (B, L)

    of_characters = {
        "character_accuracy": is_right,
        "correct_prefix": (is_right & is_character).cumprod(dim=1),
        "teacher_forced": forced.logits.argmax(dim=2) == targets,
    }
    if forced.weights is not None:
        if batch.alignment is not None:
            of_characters["alignment"] = forced.weights.argmax(dim=2) == batch.alignment
        of_characters["entropy"] = attention_entropy(forced.weights)

    # up to the <eos>: what the model wrote behind it stands where the target has padding
    metrics = {"exact_match": (is_right | is_padding).all(dim=1)}
    for name, values in of_characters.items():
        metrics[name] = (values * is_character).sum(dim=1) / batch.target_lengths
    return metrics, losses.masked_fill(is_padding, 0).sum(dim=1)


def attention_entropy(weights: Tensor) -> Tensor:
    """Compute the entropy (...) of weights (..., S) in nats, 0 ln 0 = 0."""
    return torch.special.entr(weights).sum(dim=-1)


# ---- answers beside the right ones ----


def _texts(task: Task, batch: Batch, length: int) -> list[Pair]:
    """Return the sources of `length` symbols of a batch, and their targets, as texts."""
    pairs = []
    for source, target in zip(batch.source.tolist(), batch.decoder_output.tolist(), strict=True):
        right = target[: target.index(EOS)]
        text = task.source_vocabulary.decode(source[:length])
        pairs.append((text, task.target_vocabulary.decode(right)))
    return pairs


def _compare(
    predictor: Predictor, pairs: Sequence[Pair], batch: Batch, decoding: Decoding
) -> Iterator[PairAnswer]:
    """Yield the model's answers to the sources of pairs, the rows of a batch, beside their targets,
    the right answers, with the edits that turn these into the model's.
    """
    task = predictor.task
    answers = predictor.answers([source for source, _ in pairs], batch.source, decoding)
    vocabulary = task.target_vocabulary
    for (source, target), answer in zip(pairs, answers, strict=True):
        symbols = answer.output_symbols[: -1 if answer.finished else None]  # without <eos>
        # tuples of symbols, as users count them: letters and accents of nfd are one
        right = vocabulary.joined(vocabulary.symbols_of(target))
        written = vocabulary.joined(symbols)
        edits = []
        if written != right:  # seldom, and aligning takes time
            edits = align(right, written)
        yield PairAnswer(
            source,
            right=target,
            answer=answer.output,
            source_length=len(task.source_vocabulary.symbols_of(source)),
            right_length=len(right),
            edits=tuple(edits),
            finished=answer.finished,
        )
