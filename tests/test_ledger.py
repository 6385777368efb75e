from inline import call_main, plain
from models import make_config
from tables import table

from seq2attn.analysis.costs import parameter_ledger
from seq2attn.build import build_model


# GRU: 3*96*(32+96) + 6*96 = 37440; with a context of 96: 3*96*(128+96) + 6*96 = 65088;
# with one of 192: 3*96*(224+96) + 6*96 = 92736
@table(
    "score, encoder, bridge, attention, decoder, read",
    """
general model.initial_state=last | 37440 | 0 | 9216 | 65088 | 192
additive model.attention.score.width=10 | 37440 | 0 | 1930 | 65088 | 192  # 10 * 192 + 10
none model.initial_state=bridge | 37440 | 9312 | 0 | 37440 | 96
additive model.bidirectional=true model.initial_state=bridge
  | 74880 | 9312 | 27744 | 92736 | 288  # 96 * (96 + 192) + 96
""",
    "encoder bridge attention decoder read",
)
def test_exact_counts(score, encoder, bridge, attention, decoder, read):
    changes = "model.embedding=32 model.hidden=96 model.initial_state=zeros"
    built = build_model(make_config(f"{changes} model.attention.score={score}"))
    expected = {
        "encoder embedding": 29 * 32,
        "encoder cells": encoder,
        "attention": attention,
        "decoder embedding": 29 * 32,
        "decoder cells": decoder,
        "output layer": 29 * (read + 1),
    }
    expected |= {"initial state": bridge} if bridge else {}
    total = sum(expected.values())
    assert parameter_ledger(built) == {**expected, "total": total}
    assert total == sum(parameter.numel() for parameter in built.parameters())


@table(
    "columns, parts",
    """
60 | 2
45 | 3
80 | 1
""",
    "parts",
)
def test_numbers_are_whole_where_the_table_is_wider_than_the_terminal(monkeypatch, columns, parts):
    monkeypatch.setenv("COLUMNS", columns)
    done = call_main("analyze ledger --source=800 --target=801 --width=256", terminal=True)
    shown = plain(done.out)
    assert shown.count("key_value") == parts
    assert max(map(len, shown.splitlines())) <= int(columns)
    assert "42,375,987,200" in shown
    assert "432,947,200" in shown
