"""The ONNX files of the page `live`: they are what the exporter writes, and compute what the library computes."""

import gzip
import json
import re
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from browser import ROOT
from edited import Switches, edited, sentences, settings
from onnx import numpy_helper
from safetensors.numpy import load_file

from transformer_lib import record_attention
from transformer_lib.data import make_batch
from transformer_lib.decoding import greedy_decode
from transformer_lib.evaluation import exact_match
from transformer_run.export.surgery import operated
from transformer_run.translator import PRETRAINED, Translator, pretrained_names
from workshop.site import book_live, export_onnx
from workshop.site.export_onnx import sha256

LIVE = ROOT / "book" / "_static" / "live"
ORIGIN = json.loads((LIVE / "provenance.json").read_text("utf-8"))
AS_TRAINED = Switches()
every_translator = pytest.mark.parametrize("name", pretrained_names())


@cache
def graph(name):
    """The exported file of a translator, unpacked."""
    return gzip.decompress(export_onnx.stored(name).read_bytes())


@cache
def session(content):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(content, source, target_input, switches=AS_TRAINED):
    """The outputs of the graph by name, as tensors."""
    names = [output.name for output in session(content).get_outputs()]
    gates = [[float((name, head) not in switches.off) for head in range(4)] for name in names[1:]]
    inputs = {
        "source": source.numpy(),
        "target_input": target_input.numpy(),
        "head_gates": np.array(gates, np.float32),
        "score_factor": np.array(switches.scores, np.float32),
        "position_factor": np.array(switches.positions, np.float32),
    }
    found = session(content).run(None, inputs)
    return dict(zip(names, map(torch.from_numpy, found), strict=True))


def test_every_translator_of_the_package_is_exported():
    exported = sorted(path.name.removesuffix(".onnx.gz") for path in LIVE.glob("*.onnx.gz"))
    assert sorted(ORIGIN) == pretrained_names() == exported


def test_the_runtime_is_the_pinned_one():
    pinned = json.loads((ROOT / "package.json").read_text("utf-8"))["dependencies"]["onnxruntime-web"]
    assert f"ONNX Runtime Web v{pinned}" in (book_live.RUNTIME / "ort.wasm.min.js").read_text("utf-8")[:200]


@every_translator
def test_the_files_are_those_on_record_and_small(name):
    assert sha256(graph(name)) == ORIGIN[name]["sha256"]
    stale = f"the weights have changed: run workshop/site/export_onnx.py {name}"
    assert sha256((PRETRAINED / name / "model.safetensors").read_bytes()) == ORIGIN[name]["weights_sha256"], stale
    assert export_onnx.stored(name).stat().st_size < 4_000_000


@every_translator
def test_the_integers_and_scales_are_carried_over_exactly(name):
    initializers = onnx.load_from_string(graph(name)).graph.initializer
    found = {i.name.removeprefix("model.").removesuffix(".int8"): i for i in initializers}
    packed = load_file(PRETRAINED / name / "model.safetensors")
    for key, expected in packed.items():
        np.testing.assert_array_equal(numpy_helper.to_array(found[key]), expected)


@pytest.mark.parametrize("path", sorted(LIVE.rglob("*.gz")), ids=lambda path: path.name)
def test_the_files_name_no_folder_of_the_machine_that_wrote_them(path):
    content = gzip.decompress(path.read_bytes())
    own = [str(folder).encode() for folder in (ROOT, Path.home(), Path(sys.prefix), Path(tempfile.gettempdir()))]
    assert not any(path in content for path in own)
    # Of other machines: files of Python, with which exporters mark where an operation was traced, and usual folders.
    assert not re.search(rb"site-packages|/[\w./-]+\.py\b|/(home|root|tmp|work)/", content)


@every_translator
def test_logits_and_weights_equal_the_librarys(name):
    model = Translator.load(name).model.eval()
    size = model.config.vocabulary_size
    for rows, source_length, target_length in ((1, 1, 1), (1, 11, 7), (4, 5, 13), (1, 78, 128)):
        source = torch.randint(3, size, (rows, source_length))
        target_input = torch.cat([torch.ones(rows, 1).long(), torch.randint(3, size, (rows, target_length - 1))], 1)
        with torch.no_grad(), record_attention(model) as weights:
            logits = model(source, target_input)[:, -1]
        found = run(graph(name), source, target_input)
        torch.testing.assert_close(found.pop("logits"), logits, atol=1e-3, rtol=0)
        assert found.keys() == weights.keys()
        for key, expected in weights.items():
            torch.testing.assert_close(found[key], expected, atol=1e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "number_words_en_de" else pytest.mark.deep) for name in pretrained_names()],
)
def test_each_switch_computes_what_edited_weights_compute_on_50_sentences(name):
    translator = Translator.load(name)
    pairs = translator.encode([(text, text) for text in sentences(name, 50)])
    batch = make_batch([(source, target[:6]) for source, target in pairs], translator.model.config.pad_id)
    trained = run(graph(name), batch.source, batch.target_input)["logits"]
    for switches in settings(translator.model):
        with torch.no_grad(), edited(translator.model, switches) as model, record_attention(model) as weights:
            logits = model(batch.source, batch.target_input)[:, -1]
        found = run(graph(name), batch.source, batch.target_input, switches)
        changed = found.pop("logits")
        torch.testing.assert_close(changed, logits, atol=1e-3, rtol=0, msg=lambda m, s=switches: f"{s}: {m}")
        assert (changed - trained).abs().max() > 0.01, switches
        for key, expected in weights.items():
            torch.testing.assert_close(found[key], expected, atol=1e-3, rtol=0)


def test_the_switches_hold_in_decoding_with_a_cache_and_go_back():
    translator = Translator.load("number_words_en_de")
    source = make_batch(translator.encode([(text, text) for text in sentences("number_words_en_de", 9)]), 0).source
    before = greedy_decode(translator.model, source)
    switches = Switches((("decoder.1.cross", 0),), scores=2.0, positions=0.5)
    gates = torch.tensor(list(switches.gates(translator.model).values()))
    with operated(translator.model, gates, switches.scores, switches.positions):
        found = greedy_decode(translator.model, source)
    with edited(translator.model, switches) as model:
        assert torch.equal(found, greedy_decode(model, source))
    assert found.shape != before.shape or not torch.equal(found, before)
    assert torch.equal(greedy_decode(translator.model, source), before)


def test_gates_of_another_shape_are_refused():
    model = Translator.load("number_words_en_de").model
    refused = pytest.raises(ValueError, match=r"head_gates has shape \(4, 6\); this model needs \(6, 4\)")
    with refused, operated(model, torch.ones(4, 6), 1.0, 1.0):
        pass


@pytest.mark.slow
@every_translator
def test_the_hundred_are_test_sentences_and_what_the_model_writes(name):
    translator, hundred = Translator.load(name), book_live.hundred(name)
    texts, wanted = zip(*hundred["pairs"], strict=True)
    assert len(set(texts)) == 100
    assert exact_match(translator.translate(list(texts)), wanted) == 1.0


def test_what_is_exported_stands_beside_its_origin(tmp_path):
    for name in ("b", "a", "b"):
        export_onnx.keep(tmp_path / "live" / f"{name}.onnx.gz", name, b"graph", {"name": name})
    assert gzip.decompress((tmp_path / "live" / "a.onnx.gz").read_bytes()) == b"graph"
    known = json.loads((tmp_path / "live" / "provenance.json").read_text("utf-8"))
    assert list(known.items()) == [("b", {"name": "b"}), ("a", {"name": "a"})]


@pytest.mark.deep
def test_the_exporter_writes_the_same_file_again(tmp_path):
    # A program of its own: the shape checks of the test suite would stand in the exporter's way.
    name = "number_words_en_de"
    program = (
        "import sys; from pathlib import Path; from workshop.site import export_onnx; "
        f"Path(sys.argv[1]).write_bytes(export_onnx.export({name!r}))"
    )
    path = tmp_path / "again.onnx"
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program, path], check=True, env=environment, capture_output=True)
    source, target_input = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 9, 8]])
    again, recorded = (run(content, source, target_input) for content in (path.read_bytes(), graph(name)))
    for key, expected in recorded.items():
        torch.testing.assert_close(again[key], expected, atol=1e-5, rtol=0)
    if all(version(package) == wanted for package, wanted in ORIGIN[name]["versions"].items()):
        assert sha256(path.read_bytes()) == ORIGIN[name]["sha256"]


def test_without_a_name_all_are_exported_and_an_unknown_one_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["export_onnx.py"])
    assert export_onnx.names_given("About.", ["one", "two"]) == ["one", "two"]
    monkeypatch.setattr(sys, "argv", ["export_onnx.py", "tatoeba_de_fr"])
    with pytest.raises(SystemExit):
        export_onnx.main()
    assert "unknown: tatoeba_de_fr; known: " in capsys.readouterr().err
