"""The library in C: how it is built, chosen and checked."""

import ctypes
import shutil

import pytest
import torch
from inline import ROOT, process, read
from models import CPU, each_arrangement, make_model
from refusal import refused
from tables import table
from test_faster import assert_faster_form_agrees, batch_for, needs_the_library

from seq2attn.kernels import SWITCH, describe, faster, faster_form, function, why_slow
from seq2attn.kernels.function import Kernels


@pytest.mark.skipif(not function.LIBRARY.is_file(), reason="there was no C compiler")
def test_a_library_that_was_compiled_is_used(monkeypatch):  # where it is not, other tests skip
    monkeypatch.delenv(SWITCH, raising=False)
    assert describe(CPU).startswith("compiled, ")
    assert faster_form(make_model()) is not None


def test_a_switch_turns_it_off(monkeypatch):
    monkeypatch.setenv(SWITCH, "off")
    assert faster_form(make_model()) is None
    assert describe(CPU) == "SEQ2ATTN_KERNELS is off"
    assert why_slow(CPU) is None
    monkeypatch.setenv(SWITCH, "OFF")
    with refused("SEQ2ATTN_KERNELS: unknown value 'OFF'; allowed: on, off"):
        faster_form(make_model())


@needs_the_library
@each_arrangement
@table(
    "history",
    """
none
location_coverage
shift
shift_by_key
""",
)
def test_every_variant_that_this_processor_runs_computes_the_same(
    arrangement, history, monkeypatch
):
    best = function.load(torch.float32)
    opened = ctypes.CDLL(str(function.LIBRARY))
    variants = ["baseline", "avx2", "avx512"]
    for variant in variants[: variants.index(best.variant) + 1]:
        chosen = Kernels(opened, torch.float32, variant)
        monkeypatch.setattr(faster, "load", lambda _, chosen=chosen: chosen)
        model = make_model(arrangement=arrangement, history=history, hidden=33)
        assert_faster_form_agrees(model.float(), batch_for((6, 6, 5, 2), (4, 4, 3, 1)))


@needs_the_library
def test_why_a_library_is_not_used(tmp_path, monkeypatch):
    built = tmp_path / "recurrence.so"
    for path in function.FOLDER.iterdir():
        if path.suffix in (".c", ".h", ".so"):
            shutil.copy(path, tmp_path)
    monkeypatch.setattr(function, "FOLDER", tmp_path)
    monkeypatch.setattr(function, "LIBRARY", built)
    monkeypatch.setattr(function, "WHY_NONE", tmp_path / "recurrence.txt")

    def replace_library(content):
        built.unlink()
        built.write_bytes(content)

    compiled = built.read_bytes()
    damages = [  # one after another: what is done, and what is said then
        (lambda: replace_library(b"not a library"), "the compiled recurrences cannot be loaded: "),
        (lambda: replace_library(b""), "the compiled recurrences cannot be loaded: "),
        (
            built.unlink,
            (
                "the recurrences were not compiled when seq2attn was installed: there is no "
                "recurrence.so"
            ),
        ),
        (
            lambda: (tmp_path / "recurrence.txt").write_text("there is no cc\n"),
            "installed: there is no cc",
        ),
        (lambda: built.write_bytes(compiled), "compiled, "),
        (
            lambda: (tmp_path / "gates.h").write_text("/* changed */"),
            "recurrence.so was compiled from other sources",
        ),
    ]
    for damage, says in damages:
        damage()
        function._load.cache_clear()
        assert says in describe(CPU)
        if says == "compiled, ":
            assert why_slow(CPU) is None
        else:
            assert str(why_slow(CPU)).startswith(
                f"{describe(CPU)}; training takes 2.5 times as long as with compiled kernels. "
            )
    assert describe(torch.device("cuda")) == "not compiled: PyTorch's fused operations"
    assert why_slow(torch.device("cuda")) is None
    function._load.cache_clear()


@needs_the_library
def test_a_library_with_other_fields_is_refused(monkeypatch):
    monkeypatch.setattr("seq2attn.kernels.function._Recurrence", ctypes.c_int64 * 3)
    function._load.cache_clear()
    assert "cannot be loaded: its structure has " in describe(CPU)
    function._load.cache_clear()


BUILD = """
import os, runpy, sys
folder, *compilers = sys.argv[1:]
for number, os.environ["CC"] in enumerate(compilers):
    sys.argv = ["setup.py", "build_ext", "--build-lib", f"{folder}/{number}"]
    runpy.run_path("setup.py", run_name="__main__")
"""


def build(folder, *compilers):
    """`setup.py build_ext` with each -> the folders of what it built, and its output."""
    done = process(ROOT, "-c", BUILD, folder, *compilers).check()
    folders = [folder / str(number) / "seq2attn/kernels" for number in range(len(compilers))]
    return folders, done.out + done.err


WITHOUT = {  # a compiler, and why there is no library
    "/no/such/cc": "there is no C compiler (/no/such/cc)",
    "false": "the C compiler (false) failed: exit code 1",
    "/": "the C compiler (/) could not be run: ",
    'cc "': 'CC is not a command: cc "',
    " ": "CC is not a command: ",
    "true": "the C compiler (true) made no library",
}


def test_an_installation_succeeds_without_a_compiler_and_says_why(tmp_path):
    folders, output = build(tmp_path, *WITHOUT)
    for built, why in zip(folders, WITHOUT.values(), strict=True):
        assert read(built / "recurrence.txt").startswith(why)
        assert not (built / "recurrence.so").exists()
        assert f"without its compiled part: {why}" in output
    assert output.count("Training will take 2.5 times as long.") == len(WITHOUT)


OLD_COMPILER = """#!/bin/sh
case "$*" in
  *-mavx512f*) echo "error: unrecognized command-line option '-mavx512f'" >&2; exit 1;;
esac
exec cc "$@"
"""


@pytest.mark.slow
@needs_the_library
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_what_a_compiler_does_not_know_is_left_out(tmp_path):
    compiler = tmp_path / "old-cc"
    compiler.write_text(OLD_COMPILER)
    compiler.chmod(0o755)
    (built,), output = build(tmp_path, compiler)
    assert "slower" not in output
    opened = ctypes.CDLL(str(built / "recurrence.so"))
    assert hasattr(opened, "forward_float_baseline")
    assert not hasattr(opened, "forward_float_avx512")
    opened.best_variant.restype = ctypes.c_char_p
    assert opened.best_variant() in (b"baseline", b"avx2")
