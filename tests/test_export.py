"""The folder that `seq2attn export` writes: its graphs compute what PyTorch computes."""

import json
import os
import sys

import pytest
import torch
from inline import read_json
from models import assert_close, make_cell_free_model
from pages import (
    MECHANISMS,
    OnnxLoop,
    assert_agreement,
    for_page,
    make_shown,
    requests_of,
)

from seq2attn.export import export_graphs
from seq2attn.inference.trained_model import load_run
from seq2attn.model.scores import Scaled
from seq2attn.pages.functions import functions, manifest
from seq2attn.runs.run import find_run

pytestmark = pytest.mark.usefixtures("quick_exporter")


def test_the_folder_of_a_run(cli, tmp_path, runs_copy, monkeypatch):
    """With keys that the exporter's own logcumsumexp would make nan."""
    import onnx

    monkeypatch.setattr(Scaled, "project", lambda _, keys: (300 * keys).logcumsumexp(1) / 300)
    assert cli("export tiny --to out/model").check().out == "out/model\n"
    folder = tmp_path / "out/model"
    graphs = "encoder_0_forward prepare step".split()
    files = {"README.md", "manifest.json", *(f"{name}.onnx" for name in graphs)}
    assert set(os.listdir(folder)) == files
    for name in graphs:
        onnx.checker.check_model(onnx.load(folder / f"{name}.onnx"), full_check=True)
    manifest = read_json(folder / "manifest.json")
    assert manifest["graphs"] == graphs
    step = onnx.load(folder / "step.onnx").graph
    assert {"token", "memory.keys", "change.banned"} <= {one.name for one in step.input}
    assert {"logits", "weights", "scores"} <= {one.name for one in step.output}
    assert manifest["source"]["tokens"][:5] == "<pad> <sos> <eos> a b".split()
    assert manifest["most_steps"][:2] == [12, 14]  # twice the target, plus 10
    assert manifest["run"] == "tiny"
    assert manifest["step"] == 2
    assert manifest["config"]["model"]["hidden"] == 8
    assert "out/model is not an empty folder" in cli("export tiny --to out/model").refusal
    assert (
        "out/model/README.md is not an empty folder"
        in cli("export tiny --to out/model/README.md").err
    )
    assert_folder_agrees(folder, "tiny", load_run(find_run(runs_copy, "tiny")).predictor)


def assert_folder_agrees(folder, name, predictor, **counts):
    """onnxruntime answers with its graphs as PyTorch does."""
    pytest.importorskip("onnxruntime")
    loop = OnnxLoop(folder)
    requests = requests_of(name, predictor, **counts)
    found = [loop.decode(for_page(predictor, *one)) for one in requests]
    assert_agreement(name, predictor, found, **counts)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_onnxruntime_and_pytorch_agree_with_every_mechanism(tmp_path, name):
    predictor = make_shown(name).predictor
    predictor.model.train()
    predictor.model.encoder.eval()
    modes = [part.training for part in predictor.model.modules()]
    exported = export_graphs(predictor.model)
    assert [part.training for part in predictor.model.modules()] == modes
    for graph in exported:
        (tmp_path / f"{graph.graph.name}.onnx").write_bytes(graph.SerializeToString())
    described = manifest(predictor, [graph.graph.name for graph in exported])
    (tmp_path / "manifest.json").write_text(json.dumps(described))
    count = int(os.environ.get("SEQ2ATTN_STRINGS", "1000"))
    assert_folder_agrees(tmp_path, name, predictor, texts=count, longest=40)


def test_without_its_packages_a_command_says_how_to_get_them(cli, monkeypatch, runs_copy):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    said = cli("export tiny").refusal
    assert "exporting a model needs the package onnxscript" in said
    assert 'pip install "seq2attn[export]"' in said


def test_an_encoder_without_cells_is_part_of_the_first_graph():
    model = make_cell_free_model()
    prepare, step = functions(model, torch.tensor([[3, 5, 4]]), 1)
    assert (prepare.name, step.name, set(prepare.inputs)) == (
        "prepare",
        "step",
        {"source", "valid"},
    )
    prepared = prepare.call({"source": torch.tensor([[6, 7]]), "valid": torch.ones(1, 2).bool()})
    expected = 2 * model.encoder.embedding.weight[[6, 7]]
    assert_close(prepared["memory.values"], expected.unsqueeze(0))
    assert_close(prepared["state.cell.0"], expected[:1] / 2)
