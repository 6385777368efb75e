"""Batches of a finite set of pairs."""

from collections import Counter

import pytest
import torch

from seq2attn.data import batches
from seq2attn.data.batches import EpochData
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD, SOS, Vocabulary

CPU = torch.device("cpu")
WORDS = [format(number, "b") for number in range(1, 54)]  # 53 words of 1 to 6 characters


class Words(Task):
    def __init__(self):
        self.source_vocabulary = self.target_vocabulary = Vocabulary("01")
        self.min_length, self.max_length = 1, 6
        self.training_set = [(word, word[::-1]) for word in WORDS]

    def examples(self, random, count, length=None):
        raise AssertionError("training goes through the training set")

    def target_length(self, source_length):
        return source_length


def stream(seed=1, batch_size=8, **options):
    return EpochData(Words(), source_eos=True, batch_size=batch_size, seed=seed, device=CPU, **options)


def words(batch):
    rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
    return [Words().source_vocabulary.decode(row[: length - 1]) for row, length in rows]


def epoch_of(data, epoch):
    return [data.batch(epoch * data.per_epoch + place) for place in range(data.per_epoch)]


@pytest.mark.parametrize("batch_size", [1, 8, 53, 100])
def test_an_epoch_goes_through_every_pair_once(batch_size):
    data = stream(batch_size=batch_size)
    assert data.per_epoch == -(-53 // batch_size)
    for epoch in (0, 3):
        assert Counter(word for batch in epoch_of(data, epoch) for word in words(batch)) == Counter(WORDS)


def test_a_batch_is_a_function_of_seed_and_number():
    first, again = stream().batches(), stream().batches(9)
    expected = [next(first) for _ in range(20)]
    for number in range(9, 20):
        for found in (next(again), stream().batch(number)):
            for name, tensor in vars(expected[number]).items():
                assert tensor is None or torch.equal(getattr(found, name), tensor)


def test_targets_belong_to_their_sources_and_the_longest_comes_first():
    for batch in epoch_of(stream(), 0):
        lengths = batch.source_lengths.tolist()
        assert lengths == sorted(lengths, reverse=True)
        assert batch.source.size(1) == lengths[0]  # no column is padding only
        decode = Words().target_vocabulary.decode
        for word, row, length in zip(words(batch), batch.decoder_output.tolist(), batch.target_lengths, strict=True):
            assert decode(row[:length]) == word[::-1]


def test_batches_hold_similar_lengths():
    def spread(rows):
        return sum(int(lengths[one].max() - lengths[one].min()) for one in rows)

    data = stream()
    lengths = data.lengths
    unsorted = torch.split(torch.randperm(53, generator=torch.Generator().manual_seed(1)), 8)
    assert spread(data.epoch_rows(0)) < 0.5 * spread(unsorted)


def test_the_smaller_batch_is_a_random_sample_of_all_lengths(monkeypatch):
    """53 = 6 x 8 + 5: over many epochs the mean length in the batch of 5 is that of all words."""
    monkeypatch.setattr(batches, "POOL", 2)
    data = stream()
    small = [rows for epoch in range(400) for rows in data.epoch_rows(epoch) if len(rows) == 5]
    assert len(small) == 400
    lengths = data.lengths.double()
    found, error = lengths[torch.cat(small)].mean(), lengths.std() / (400 * 5) ** 0.5
    assert abs(found - lengths.mean()) < 4 * error
    places = Counter(next(i for i, rows in enumerate(data.epoch_rows(epoch)) if len(rows) == 5) for epoch in range(400))
    assert set(places) == set(range(7))


def test_words_are_dropped_from_the_decoders_input_only():
    plain, dropped = stream(), stream(word_dropout=0.5)
    shares = []
    for number in range(20):
        one, other = plain.batch(number), dropped.batch(number)
        assert torch.equal(one.source, other.source) and torch.equal(one.decoder_output, other.decoder_output)
        changed = one.decoder_input != other.decoder_input
        assert (other.decoder_input[changed] == PAD).all() and (other.decoder_input[:, 0] == SOS).all()
        shares.append(changed.sum() / one.target_lengths.sum())
        assert torch.equal(other.decoder_input, stream(word_dropout=0.5).batch(number).decoder_input)
    assert 0.4 < sum(shares) / 20 < 0.6
