"""Vocabularies: the ids of symbols, of texts that are taken apart, and what is refused."""

import unicodedata

from refusal import refusal
from tables import table

from seq2attn.data.vocabulary import Vocabulary, abridged

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def test_specials_come_first_then_the_alphabet_in_order():
    vocabulary = Vocabulary(LETTERS)
    assert len(vocabulary) == 29
    assert vocabulary.encode(LETTERS) == list(range(3, 29))
    assert vocabulary.tokens == ("<pad>", "<sos>", "<eos>", *LETTERS)
    assert vocabulary.decode(vocabulary.encode("zxy")) == "zxy"
    assert vocabulary.decode([1, 3, 5, 2, 0]) == "<sos>ac<eos><pad>"


@table(
    "options, text, says",
    r"""
{symbols: abc} | aZb7Z | 'aZb7Z' has symbols the model never saw: '7', 'Z'; its alphabet is a b c
{symbols: [a, bc], separator: " "} | a b
  | has symbols the model never saw: 'b'; its alphabet is a bc
{symbols: ab, separator: " "} | a  b | has no symbol, or an empty one
{symbols: ab, unknown: true, features: [V]} | ab | lacks features
{symbols: ab, unknown: true, features: [V]} | "ab\tV;" | lacks features, or has an empty one
{symbols: ab, unknown: true, features: [V]} | "\tV" | has no symbol, or an empty one
{symbols: ab, unknown: true, features: [V]} | "a\tV\tV" | has a tab too many, or is not UTF-8 text
{symbols: abc} | "x\u0303" | never saw: 'x', U+0303;  # a combining tilde
{symbols: abc} | "\u0430" | (U+0430); its alphabet is a b c  # Cyrillic, looks like a
{symbols: ab, unknown: true} | "b\udce9" | is not UTF-8 text  # as Python reads it
""",
    "options text",
)
def test_texts_that_are_not_series_of_symbols_are_refused(options, text, says):
    message = refusal(Vocabulary(**options).encode, text).message
    assert says in message
    assert len(message) < 300


def test_few_of_many_symbols_are_named():
    message = refusal(Vocabulary("A").encode, LETTERS * 100).message
    assert "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', ...;" in message
    assert len(message) < 300


def test_alphabets_are_abridged():
    texts = {
        "abcdefxyz": "a b c d e f x y z",
        ("a", "bc"): "a bc",
        "a\u0303b": "a U+0303 b",
        "a bc": "a ' ' b c",
    }
    assert {alphabet: abridged(alphabet) for alphabet in texts} == texts
    assert len(abridged([chr(2 * code) for code in range(100, 1000)])) in (199, 200)


@table(
    "options, text, ids, read",
    r"""
{symbols: "a\u00e3"} | "a\u00e3" | [3, 4] | "a\u00e3"
{symbols: "a\u00e3"} | "aa\u0303" | [3, 4] | "a\u00e3"
{symbols: [a, "a\u0303"]} | "a\u00e3" | [3, 4] | "a\u00e3"
{symbols: [a, "a\u0303"]} | "aa\u0303" | [3, 4] | "a\u00e3"
{symbols: é, unknown: true} | "e\u0301" | [4] | é
{symbols: [e, "\u0301"], unknown: true, normalise: nfd} | é | [4, 5] | é
{symbols: [a, t͡ʃ], separator: " ", unknown: true} | t͡ʃ a b | [5, 4, 3] | t͡ʃ a <unk>
{symbols: VW, unknown: true, features: [PST, V]} | "WV\tV;PST" | [5, 4, 7, 6] | "WV\tV;PST"
""",
    "options text ids read",
)  # V is a letter and a feature
def test_symbols_are_the_same_however_they_are_written(options, text, ids, read):
    vocabulary = Vocabulary(**options)
    assert vocabulary.encode(text) == ids
    assert vocabulary.decode(ids) == read


def test_what_was_never_seen():
    vocabulary = Vocabulary(["a", "t͡ʃ"], separator=" ", unknown=True)
    assert vocabulary.unseen("t͡ʃ a b b") == ["b"]
    featured = Vocabulary("VW", unknown=True, features=["PST", "V"])
    assert featured.encode("W\tFUT") == [5, 3]
    assert featured.unseen("x\tFUT;V") == ["FUT", "x"]


def test_letters_and_marks_of_normal_form_d_are_put_together_again():
    apart = Vocabulary(["c", "e", "\u0301"], normalise="nfd")
    assert apart.joined([*apart.symbols_of("éc"), "\u0301", "<eos>"]) == ("é", "ć", "<eos>"), (
        "code points of form C are counted"
    )
    for text in ("g\u0332", "e\u0323\u0301", "m\u0329", "\u0439"):  # g̲, ẹ́, m̩, й
        points = unicodedata.normalize("NFC", text)
        assert apart.joined(apart.symbols_of(text)) == tuple(points)
    assert apart.joined(["\u0301", "<eos>", "\u0301"]) == ("\u0301", "<eos>", "\u0301")
    separated = Vocabulary(["e", "\u0301"], separator=" ", normalise="nfd")
    assert separated.joined(["e", "\u0301", "e\u0301"]) == ("e", "\u0301", "é")
    assert Vocabulary(["e", "\u0301"]).joined(["e", "\u0301"]) == ("e", "\u0301")
