import hashlib
import math

import pytest
import torch

from seq2attn.data.batches import TrainingData, make_batch
from seq2attn.data.padding import pad_rows
from seq2attn.data.tasks import Examples
from seq2attn.data.tasks.reverse import Reverse
from seq2attn.parts import TASKS

CPU = torch.device("cpu")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIELDS = ("source", "source_lengths", "decoder_input", "decoder_output", "target_lengths", "alignment")


def training_data(task="reverse", min_length=2, max_length=6, **options):
    made = TASKS.get(task).load()(alphabet=LETTERS, min_length=min_length, max_length=max_length)
    return TrainingData(task=made, device=CPU, **{"source_eos": False, "batch_size": 16, "seed": 1, **options})


def same(one, other):
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


def digest(batch):
    """Names, types, shapes and values of a batch's tensors in 16 digits."""
    found = hashlib.sha256()
    for name in FIELDS:
        tensor = getattr(batch, name)
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def strings(batch, source_eos=False):
    """The characters' ids of each row, without `<eos>` and padding."""
    rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
    return [row[: length - source_eos] for row, length in rows]


def lists(batch):
    """The batch's tensors as lists, in the order of `FIELDS`; None without alignment."""
    return [None if getattr(batch, name) is None else getattr(batch, name).tolist() for name in FIELDS]


def test_a_batch_by_hand():
    # "cab" and "b" over the alphabet abc: a=3, b=4, c=5
    source, lengths = torch.tensor([[5, 3, 4], [4, 0, 0]]), torch.tensor([3, 1])
    examples = Reverse(alphabet="abc").solve(source, lengths)
    decoder = [[1, 4, 3, 5], [1, 4, 0, 0]], [[4, 3, 5, 2], [4, 2, 0, 0]], [3, 1], [[2, 1, 0, -1], [0, -1, -1, -1]]
    assert lists(make_batch(examples, source_eos=True)) == [[[5, 3, 4, 2], [4, 2, 0, 0]], [4, 2], *decoder]
    assert lists(make_batch(examples, source_eos=False)) == [[[5, 3, 4], [4, 0, 0]], [3, 1], *decoder]
    assert source.tolist() == [[5, 3, 4], [4, 0, 0]] and lengths.tolist() == [3, 1]


def test_a_batch_without_alignment_and_with_targets_of_other_lengths():
    # sources "c" and "ab", targets "yxy" and "x"
    source, target = pad_rows([[5], [3, 4]], CPU), pad_rows([[4, 3, 4], [3]], CPU)
    batch = make_batch(Examples(*source, *target), source_eos=True)
    read = [[[5, 2, 0], [3, 4, 2]], [2, 3], [[1, 4, 3, 4], [1, 3, 0, 0]], [[4, 3, 4, 2], [3, 2, 0, 0]], [3, 1], None]
    assert lists(batch) == read and batch.decoder_lengths.tolist() == [4, 2]
    for part in (batch.select(slice(1, 2)), batch.select(torch.tensor([1])), batch.select(slice(1, 2)).to(CPU)):
        assert lists(part) == [one and one[1:] for one in read]


def test_rows_are_padded_on_the_right():
    ids, lengths = pad_rows([[7], [], [8, 9]], CPU, padding=-1)
    assert ids.tolist() == [[7, -1], [-1, -1], [8, 9]] and lengths.tolist() == [1, 0, 2]
    ids, lengths = pad_rows([], CPU)
    assert ids.shape == (0, 0) and lengths.shape == (0,)


DIGESTS = {  # of batches 0 and 1000, from the code before tasks drew their own examples
    "reverse": ("53bad9a1fe65659c", "06b6da1eb0cfaa6e", "77a21a1aa7245f1b", "6e4543bba5f9fbd8"),
    "copy": ("3cd5118e90353c05", "3f4e0277cd689f10", "6acbd511684f24a6", "083e9b32c5839e79"),
    "sort": ("c4a9ab8a41ee728a", "a03b20168bef5a0d", "e460e9fe289c5779", "1ba74ac98386831d"),
    "duplicate": ("a7ba63f0de729927", "694cee36413dbf71", "d6deab8dd29cb328", "af3d9707a9309898"),
}


@pytest.mark.parametrize("task", DIGESTS)
def test_the_draws_of_a_seed_never_change(task):
    plain = training_data(task, min_length=1, max_length=12, batch_size=64)
    other = training_data(task, min_length=3, max_length=7, batch_size=64, source_eos=True, word_dropout=0.25)
    found = [data.batch(index) for data in (plain, other) for index in (0, 1000)]
    assert tuple(map(digest, found)) == DIGESTS[task]


def test_a_batch_is_a_pure_function_of_seed_and_number():
    data = training_data(seed=4)
    expected = data.batch(17)
    assert not any(same(data.batch(index), expected) for index in (3, 0, 18))
    torch.rand(3)
    assert same(data.batch(17), expected) and same(training_data(seed=4).batch(17), expected)


@pytest.mark.parametrize(("batch_size", "start"), [(16, 254), (1500, 1), (5000, 0)])
def test_the_stream_is_the_batches_in_order(batch_size, start):
    data = training_data(batch_size=batch_size)
    for index, batch in zip(range(start, start + 4), data.batches(start), strict=False):
        assert batch.source.shape == (batch_size, 6)
        assert same(batch, data.batch(index))


@pytest.mark.parametrize("batch_size", [16, 5000])
def test_other_seeds_and_numbers_give_other_batches(batch_size):
    streams = [training_data(seed=seed, batch_size=batch_size) for seed in range(4)]
    seen = {tuple(map(tuple, strings(data.batch(index))[:16])) for data in streams for index in (0, 1, 2, 3, 300, 301)}
    assert len(seen) == 4 * 6


def test_making_a_batch_leaves_the_global_generator_alone_and_sorts_longest_first():
    before = torch.get_rng_state()
    for index in range(5):
        lengths = training_data().batch(index).source_lengths.tolist()
        assert lengths == sorted(lengths, reverse=True)
    assert torch.equal(torch.get_rng_state(), before)


def test_word_dropout_changes_only_the_decoders_input():
    plain, dropped = training_data(batch_size=512), training_data(batch_size=512, word_dropout=0.25)
    one, other = plain.batch(3), dropped.batch(3)
    for name in set(FIELDS) - {"decoder_input"}:
        assert torch.equal(getattr(one, name), getattr(other, name))
    characters = one.decoder_input > 2
    blanked = characters & (other.decoder_input == 0)
    assert torch.equal(other.decoder_input, one.decoder_input.masked_fill(blanked, 0))
    count = int(characters.sum())
    assert abs(int(blanked.sum()) - 0.25 * count) < 4 * math.sqrt(count * 0.25 * 0.75)
    assert (other.decoder_input[:, 0] == 1).all()  # <sos> stays
    assert same(other, dropped.batch(3))
