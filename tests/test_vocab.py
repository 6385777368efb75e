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
    assert "abc" in str(caught.value)


def test_long_texts_and_lists_of_unseen_characters_are_shortened():
    with pytest.raises(Seq2AttnError) as caught:
        Vocabulary("A").encode(LETTERS * 100)
    assert "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', ...;" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_alphabets_are_abridged():
    for alphabet, text in (
        ("abcdefxyz",) * 2,
        (["a", "bc"], "a bc"),
        ("a\u0303b", "a U+0303 b"),
        ("a bc", "a ' ' b c"),
    ):
        assert abridged(alphabet) == text
    assert len(abridged([chr(2 * code) for code in range(100, 1000)])) == 200


# ---- characters: code points of NFC ----


def test_a_letter_and_its_accent_are_one_character_however_they_are_written():
    composed, decomposed = "a\u00e3", "aa\u0303"
    for alphabet in (composed, decomposed, ["a", "a\u0303"]):
        vocabulary = Vocabulary(alphabet)
        assert vocabulary.symbols == ("a", "\u00e3")
        assert vocabulary.encode(decomposed) == vocabulary.encode(composed) == [3, 4]
        assert vocabulary.check(decomposed) == composed


def test_jamo_of_an_alphabet_are_read_as_they_are_written():
    assert Vocabulary("\u1100\u1161"[::-1]).encode("\u1100\u1161") == [4, 3]  # NFC would make one syllable of them


@pytest.mark.parametrize(
    ("unseen", "name"),
    [
        ("x\u0303", "'x', U+0303;"),  # a combining tilde, which has no look of its own
        ("\u0430", "'\u0430' (U+0430);"),  # Cyrillic, looks like the a of the alphabet
        ("\u200d", "U+200D;"),
        ("\x1b", "'\\x1b';"),
    ],
)
def test_unseen_characters_are_named_by_code_point_where_their_look_could_mislead(unseen, name):
    with pytest.raises(Seq2AttnError) as caught:
        Vocabulary("abc").encode(unseen)
    assert f"has characters the model never saw: {name} its alphabet is abc" in str(caught.value)
