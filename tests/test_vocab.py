import pytest

from seq2attn.data.vocabulary import EOS, PAD, SOS, Vocabulary, abridged
from seq2attn.errors import Seq2AttnError

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def test_specials_come_first_then_the_alphabet_in_order():
    vocabulary = Vocabulary(LETTERS)
    assert (PAD, SOS, EOS) == (0, 1, 2)
    assert len(vocabulary) == 29
    assert vocabulary.encode(LETTERS) == list(range(3, 29))
    assert [vocabulary.symbol(index) for index in (0, 1, 2, 3, 28)] == ["<pad>", "<sos>", "<eos>", "a", "z"]


def test_ids_follow_the_order_of_the_alphabet():
    assert Vocabulary("zña").encode("añz") == [5, 4, 3]


def test_symbols_may_be_any_sequence():
    vocabulary = Vocabulary(["b", "a"])
    assert vocabulary.symbols == Vocabulary("ba").symbols == ("b", "a")
    assert vocabulary.encode("ab") == [4, 3]


def test_decode_is_the_inverse_of_encode_and_names_special_tokens():
    vocabulary = Vocabulary("xyz ")
    assert vocabulary.decode(vocabulary.encode("zx y")) == "zx y"
    assert vocabulary.decode([1, 3, 5, 2, 0]) == "<sos>xz<eos><pad>"


@pytest.mark.parametrize("ask", [Vocabulary("abc").encode, Vocabulary("abc").check])
def test_unseen_characters_are_listed_once(ask):
    with pytest.raises(Seq2AttnError) as caught:
        ask("aZb7Z")
    assert "'7', 'Z'" in str(caught.value) and "'a'" not in str(caught.value)
    assert "'aZb7Z'" in str(caught.value)
    assert "a-c" in str(caught.value)


def test_long_texts_and_lists_of_unseen_characters_are_shortened():
    with pytest.raises(Seq2AttnError) as caught:
        Vocabulary("A").encode(LETTERS * 100)
    assert "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' and 16 more" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_empty_string_is_refused():
    with pytest.raises(Seq2AttnError, match="empty"):
        Vocabulary("abc").check("")


@pytest.mark.parametrize(
    ("alphabet", "text"),
    [
        ("abcdefxyz", "a-f x-z"),
        ("ab", "ab"),
        ("abc", "a-c"),
        ("acb", "a c b"),
        ("a bc", "a ' ' bc"),
        ("0123a", "0-3 a"),
    ],
)
def test_alphabets_are_abridged(alphabet, text):
    assert abridged(alphabet) == text


def test_any_alphabet_is_shown_in_one_line():
    assert len(abridged([chr(2 * code) for code in range(100, 1000)])) == 200
