"""Batches: of examples, of a task that draws them without end, and of a finite set of pairs."""

import hashlib
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
import yaml
from models import CPU, make_task, seeded
from tables import table

from seq2attn.data import stream
from seq2attn.data.batches import Examples, make_batch, pad_rows
from seq2attn.data.stream import EpochData, TrainingData

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = [format(number, "b") for number in range(1, 54)]  # 53 words of 1 to 6 characters
FIELDS = "source source_lengths decoder_input decoder_output target_lengths alignment".split()


def training_data(task="reverse", min_length=2, max_length=6, **options):
    made = make_task(task, alphabet=LETTERS, min_length=min_length, max_length=max_length)
    return TrainingData(
        task=made, device=CPU, **{"source_eos": False, "batch_size": 16, "seed": 1, **options}
    )


def same(one, other):
    return lists(one) == lists(other)


def epoch_data(batch_size=8, seed=1, **options):
    """The stream over the finite set `WORDS`, each with its reverse."""
    words = make_task(alphabet="01", max_length=6)
    words.training_set = [(word, word[::-1]) for word in WORDS]
    words.examples = None  # training goes through the training set
    return EpochData(
        words, source_eos=True, batch_size=batch_size, seed=seed, device=CPU, **options
    )


def digest(batch):
    """Names, types, shapes and values of a batch's tensors in 16 digits."""
    found = hashlib.sha256()
    for name in FIELDS:
        tensor = getattr(batch, name)
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def words(batch, vocabulary, source_eos=True):
    """The text of each source."""
    rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
    return [vocabulary.decode(row[: length - source_eos]) for row, length in rows]


def lists(batch):
    """The batch's tensors as lists, in the order of `FIELDS`; None without alignment."""
    tensors = (getattr(batch, name) for name in FIELDS)
    return [None if tensor is None else tensor.tolist() for tensor in tensors]


def test_a_batch_by_hand():
    # "cab" and "b" over the alphabet abc: a=3, b=4, c=5
    ids = [[5, 3, 4], [4, 0, 0]]
    source = torch.tensor(ids)
    lengths = torch.tensor([3, 1])
    examples = make_task(alphabet="abc").solve(source, lengths)
    decoder = yaml.safe_load("""
- [[1, 4, 3, 5], [1, 4, 0, 0]]
- [[4, 3, 5, 2], [4, 2, 0, 0]]
- [3, 1]
- [[2, 1, 0, -1], [0, -1, -1, -1]]
""")
    ended = [[[5, 3, 4, 2], [4, 2, 0, 0]], [4, 2]]
    assert lists(make_batch(examples, source_eos=True)) == ended + decoder
    assert lists(make_batch(examples, source_eos=False)) == [ids, [3, 1], *decoder]
    assert source.tolist() == ids
    assert lengths.tolist() == [3, 1]


def test_a_batch_without_alignment_and_with_targets_of_other_lengths():
    # sources "c" and "ab", targets "yxy" and "x"
    source = pad_rows([[5], [3, 4]], CPU)
    batch = make_batch(Examples(*source, *pad_rows([[4, 3, 4], [3]], CPU)), source_eos=True)
    read = yaml.safe_load("""
- [[5, 2, 0], [3, 4, 2]]
- [2, 3]
- [[1, 4, 3, 4], [1, 3, 0, 0]]
- [[4, 3, 4, 2], [3, 2, 0, 0]]
- [3, 1]
- null
""")
    assert lists(batch) == read
    assert batch.decoder_lengths.tolist() == [4, 2]
    for rows in (slice(1, 2), torch.tensor([1])):
        assert lists(batch.select(rows).to(CPU)) == [one and one[1:] for one in read]


def test_rows_are_padded_on_the_right():
    ids, lengths = pad_rows([[7], [], [8, 9]], CPU)
    assert ids.tolist() == [[7, 0], [0, 0], [8, 9]]
    assert lengths.tolist() == [1, 0, 2]
    ids, lengths = pad_rows([], CPU)
    assert ids.shape == (0, 0)
    assert lengths.shape == (0,)


DIGESTS = {  # of batches 0 and 1000, from the code before tasks drew their own examples
    "reverse": "53bad9a1fe65659c 06b6da1eb0cfaa6e 77a21a1aa7245f1b 6e4543bba5f9fbd8",
    "copy": "3cd5118e90353c05 3f4e0277cd689f10 6acbd511684f24a6 083e9b32c5839e79",
    "sort": "c4a9ab8a41ee728a a03b20168bef5a0d e460e9fe289c5779 1ba74ac98386831d",
    "duplicate": "a7ba63f0de729927 694cee36413dbf71 d6deab8dd29cb328 af3d9707a9309898",
}


@pytest.mark.parametrize("task", DIGESTS)
def test_the_draws_of_a_seed_never_change(task):
    plain = training_data(task, min_length=1, max_length=12, batch_size=64)
    other = training_data(
        task, min_length=3, max_length=7, batch_size=64, source_eos=True, word_dropout=0.25
    )
    found = [next(data.batches(index)) for data in (plain, other) for index in (0, 1000)]
    assert " ".join(map(digest, found)) == DIGESTS[task]


@pytest.mark.parametrize(
    "made, batch_size, start",
    [(training_data, 16, 254), (training_data, 1500, 0), (epoch_data, 8, 9)],
)
def test_a_batch_is_a_pure_function_of_seed_and_number_and_the_stream_is_the_batches_in_order(
    made, batch_size, start
):
    data = made(batch_size=batch_size, seed=4)
    expected = next(data.batches(start + 3))
    others = [(4, start), (4, start + 2), (4, start + 4), (5, start + 3)]  # seed, number
    for seed, number in others:
        assert not same(next(made(batch_size=batch_size, seed=seed).batches(number)), expected)
    torch.rand(3)
    assert same(next(made(batch_size=batch_size, seed=4).batches(start + 3)), expected)
    before = torch.get_rng_state()
    for index, batch in zip(range(start, start + 4), data.batches(start), strict=False):
        assert same(batch, next(data.batches(index)))
        lengths = batch.source_lengths.tolist()
        assert lengths == sorted(lengths, reverse=True)
        # no column is padding only
        assert batch.source.size(1) == (6 if made is training_data else lengths[0])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("made, size, share", [(training_data, 512, 0.25), (epoch_data, 100, 0.5)])
def test_word_dropout_changes_only_the_decoders_input(made, size, share):
    one, other = (
        next(made(batch_size=size, word_dropout=dropout).batches(3)) for dropout in (0, share)
    )
    letters = one.decoder_input > 2
    blanked = letters & (other.decoder_input == 0)
    expected = one.decoder_input.masked_fill(blanked, 0)  # <sos> stays
    assert same(replace(one, decoder_input=expected), other)
    count = int(letters.sum())
    assert abs(int(blanked.sum()) - share * count) < 4 * math.sqrt(count * share * (1 - share))
    assert same(other, next(made(batch_size=size, word_dropout=share).batches(3)))


# ---- a finite set of pairs ----


@table(
    "batch_size",
    """
1
8
53
100
""",
    "batch_size",
)
def test_an_epoch_goes_through_every_pair_once_with_its_target(batch_size):
    data = epoch_data(batch_size)
    assert data.per_epoch == -(-53 // batch_size)
    vocabulary = data.task.source_vocabulary
    for epoch in (0, 3):
        drawn = [
            next(data.batches(epoch * data.per_epoch + place)) for place in range(data.per_epoch)
        ]
        sources = []
        for batch in drawn:
            of_batch = words(batch, vocabulary)
            rows = zip(batch.decoder_output.tolist(), batch.target_lengths, strict=True)
            targets = [vocabulary.decode(row[:length]) for row, length in rows]
            assert targets == [word[::-1] for word in of_batch]
            sources += of_batch
        assert Counter(sources) == Counter(WORDS)


def test_batches_hold_similar_lengths():
    def spread(rows):
        return sum(int(lengths[one].max() - lengths[one].min()) for one in rows)

    data = epoch_data()
    lengths = torch.tensor([len(word) for word in WORDS])
    unsorted = torch.split(torch.randperm(53, generator=seeded(1)), 8)
    assert spread(data.epoch_rows(0)) < 0.5 * spread(unsorted)


def test_the_smaller_batch_is_a_random_sample_of_all_lengths(monkeypatch):
    """53 = 6 x 8 + 5: over many epochs the mean length in the batch of 5 is that of all words."""
    monkeypatch.setattr(stream, "POOL", 2)
    data = epoch_data()
    epochs = [data.epoch_rows(epoch) for epoch in range(400)]
    places = [[len(rows) for rows in epoch].index(5) for epoch in epochs]
    assert set(places) == set(range(7))
    lengths = torch.tensor([len(word) for word in WORDS]).double()
    small = [epoch[place] for epoch, place in zip(epochs, places, strict=True)]
    drawn = lengths[torch.tensor(list(map(list, small))).flatten()]
    error = lengths.std() / (400 * 5) ** 0.5
    assert abs(drawn.mean() - lengths.mean()) < 4 * error
