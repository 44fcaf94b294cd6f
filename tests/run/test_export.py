"""The command `export`: each format computes what the library computes, and says what it cannot."""

import base64
import copy
import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import ctranslate2
import numpy as np
import onnxruntime
import pytest
import tokenizers
import torch
from command_line import run, two_files
from hypothesis import given, settings
from hypothesis import strategies as st
from small_translators import LARGER, SMALL, random_translator, words, young_translator
from test_left_alone import assert_left_alone

from transformer_lib import record_attention
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import SPECIALS, Vocabulary, WordTokenizer
from transformer_lib.interop import from_marian, to_marian
from transformer_run.export import Engine, export_ctranslate2, export_marian
from transformer_run.export.onnx import export_onnx
from transformer_run.export.page import export_page, page_content, page_hundred
from transformer_run.export.portable_tokenizer import portable_tokenizer
from transformer_run.quantization import dequantize, quantize
from transformer_run.translator import Translator, pretrained_names

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"
GERMAN = ["Wie alt bist du?", "", "Das ist <eos> kein <pad> Ende. 🙂", "▁unter▁strichen", "Sie schläft,  glaube ich."]
ODD = ["", " ", "a\x1cb\u00a0c", "<eos> x<pad> <unk>", "ÄPFEL ΣΑΣ İ", "forty-seven", "日本 🙂", "▁a ▁"]
WITHOUT_US = "import sys; sys.modules.update(torch=None, transformer_lib=None, transformer_run=None)\n"
# Every field that changes the function, none of them alone.
CONFIGS = [
    {**LARGER, "d_k": 3, "d_v": 5, "attention_bias": True},
    {**SMALL, "d_k": 9, "d_v": 2},
    SMALL,
    LARGER,
    {**SMALL, "norm_order": "pre", "activation": "gelu", "attention_bias": True},
    {**SMALL, "norm_order": "pre", "final_norm": False, "output_bias": True},
    {**LARGER, "final_norm": True, "positions": "learned", "max_positions": 9, "activation": "silu"},
    {**LARGER, "tied_output": False, "source_vocabulary_size": 15, "attention_bias": True},
]

# Every field that a graph could leave out, in two translators: to export one takes seconds.
LEARNED = {
    **{**LARGER, "norm_order": "pre", "final_norm": False, "positions": "learned", "max_positions": 9},
    **{"activation": "gelu", "attention_bias": True, "output_bias": True},
}
YOUNG = {
    **{"d_ff": 32, "d_k": 3, "d_v": 5, "final_norm": True, "activation": "silu"},
    **{"tied_output": False, "source_vocabulary_size": 40},
}


def log_probabilities(model, source, target):
    """Of each target token and <eos>, among all tokens but <pad>."""
    with torch.no_grad():
        logits = model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))[0]
    logits[:, 0] = -torch.inf
    return logits.log_softmax(dim=-1)[range(len(target) + 1), [*target, 2]].numpy()


def sentences(name, count):
    """Of the kind that the translator was trained on."""
    if name.startswith("number_words"):
        return [source for source, _ in load_pairs("number_words", "test", "en", "de")][:count]
    recorded = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return [example["source"] for example in recorded["examples"]][:count]


export = partial(run, "export")


@pytest.mark.parametrize("config", CONFIGS)
def test_ctranslate2_gives_each_token_the_same_probability(config, tmp_path):
    translator = random_translator(**config)
    export_ctranslate2(translator, tmp_path)
    engine = ctranslate2.Translator(str(tmp_path))
    for source, target in (([4], [5, 6]), ([14, 9, 9, 4, 7], [18, 4, 3, 3]), ([5, 6, 7], [])):
        tokens = [translator.source_tokenizer.tokens(source)], [translator.target_tokenizer.tokens(target)]
        [scored] = engine.score_batch(*tokens)
        expected = log_probabilities(translator.model, source, target)
        np.testing.assert_allclose(scored.log_probs, expected, atol=1e-4)


@pytest.mark.parametrize("config", CONFIGS)
def test_the_engine_decodes_greedily_as_the_library_does(config):
    translator = random_translator(**config)
    lines = ["w4", "w5 w6 w7 w4 w4", "", "w9 nowhere <eos> w4"]
    assert Engine(translator).translate(lines) == translator.translate(lines)


@pytest.mark.usefixtures("unchecked")  # a check of shapes at each step would take most of the time
@pytest.mark.parametrize("name", pretrained_names())
def test_the_engine_decodes_the_shipped_translators_as_the_library_does(name):
    translator, texts = Translator.load(name), sentences(name, 25)
    engine = Engine(translator, threads=2)
    odd = [*texts, *GERMAN]
    assert engine.translate(odd) == translator.translate(odd)
    for alpha in (0.6, "length"):
        expected = translator.translate(texts, beam_size=4, alpha=alpha)
        pairs = zip(engine.translate(texts, 4, alpha), expected, strict=True)
        assert sum(a == b for a, b in pairs) >= 24, alpha  # ours may search for longer


@pytest.mark.parametrize(
    ("to", "name", "odd"),
    [
        ("ctranslate2", "tatoeba_de_en", GERMAN),
        *(pytest.param("onnx", name, GERMAN, marks=pytest.mark.deep) for name in ("tatoeba_de_en", "parser_en_en")),
        *(
            pytest.param("marian", name, [""], marks=pytest.mark.deep)
            for name in ("tatoeba_de_en", "number_words_en_de")
        ),
    ],
)
def test_a_folder_translates_by_its_readme_without_us(to, name, odd, tmp_path):
    folder, lines = tmp_path / "out", [*odd, *sentences(name, 8)]
    assert export(name, folder, "--to", to) == 0
    assert translated_by(to, folder, lines) == Translator.load(name).translate(lines)


def test_eight_bits_translate_alike_in_a_quarter_of_the_size(tmp_path):
    folder, pair = tmp_path / "out", ("Wie alt bist du?", "How old are you?")
    pairs = two_files(tmp_path, [pair], ("x.de", "x.en"))
    assert export("tatoeba_de_en", folder, "--to", "ctranslate2", "--int8", "--data", *pairs) == 0
    assert (folder / "model.bin").stat().st_size < 6_000_000
    assert translated_by("ctranslate2", folder, GERMAN[:1]) == ["How old are you?"]


@pytest.fixture(scope="module")
def young():
    return young_translator(**YOUNG)


@pytest.fixture(scope="module")
def test_pairs():
    return load_pairs("number_words", "test", "en", "de")[:200]


@pytest.mark.slow
@pytest.mark.parametrize("to", ["ctranslate2", "onnx", pytest.param("marian", marks=pytest.mark.deep)])
def test_a_folder_ends_where_the_library_ends(to, young, test_pairs, tmp_path):
    folder = tmp_path / "out"
    long, odd = "one hundred and " * 500, [*GERMAN, " ", "\u200b", "<eos> <bos> five"]
    lines = [*odd, long, *(source for source, _ in test_pairs)]
    young = young_translator() if to == "marian" else young
    with pytest.warns(UserWarning, match="1000 are read"):
        expected = young.translate(lines)
    counts = [sum(map(len, map(young.target_tokenizer.encode, text.split("<unk>")))) for text in expected]
    assert max(counts) > 55  # some go on to their limit
    assert sum("<unk>" in text for text in expected) > 50
    young.save(tmp_path / "young")
    assert export(tmp_path / "young", folder, "--to", to) == 0
    assert "1000" in (folder / "README.md").read_text("utf-8").partition("```\n\n")[2]
    assert translated_by(to, folder, lines) == expected
    if to == "onnx":
        assert_same_logits_step_by_step(young.model, folder)


@pytest.mark.slow
@pytest.mark.parametrize("exporter", [export_ctranslate2, export_onnx])
def test_a_folder_and_the_engine_read_and_write_no_more_than_learned_positions_allow(exporter, tmp_path):
    translator, lines = random_translator(**LEARNED), ["w4 w5 w6 " * 9, "w7", ""]
    with torch.no_grad():
        translator.model.output_bias[2] = -9  # <eos>: it goes on for as long as it may
    with pytest.warns(UserWarning, match="8 are read"):
        expected = translator.translate(lines)
    assert max(len(text.split()) for text in expected) == 9
    with pytest.warns(UserWarning, match="8 are read"):
        assert Engine(translator).translate(lines) == expected
    assert_left_alone(translator, exporter, tmp_path)
    assert translated_by("", tmp_path, lines) == expected
    if exporter is export_onnx:
        assert_same_logits_step_by_step(translator.model.eval(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("to", [("ctranslate2", "--int8"), ("page",)])
def test_eight_bits_say_what_they_cost(to, young, test_pairs, tmp_path, printed):
    young.save(tmp_path / "young")
    given = ["--data", *two_files(tmp_path, test_pairs, ("x.txt", "y.txt"))]
    evaluated = printed("evaluate", tmp_path / "young", *given)
    said = printed("export", tmp_path / "young", tmp_path / "out", "--to", *to, *given)
    whole, rounded = map(float, re.search(r"([\d.]+) in float32, ([\d.]+) in 8 bits", said).groups())
    assert f"BLEU = {whole:.2f} " in evaluated
    assert whole > 1
    assert rounded == pytest.approx(whole, abs=0.5)
    if to == ("page",):
        content = assert_in_8_bits_on_the_page(young, tmp_path / "out")
        assert len(content["hundred"]["pairs"]) == 100


def translated_by(to, folder, lines):
    """What the README's code writes, without our packages; Marian's folder is in PyTorch's own format."""
    missing = WITHOUT_US.replace("torch=None, ", "") if to == "marian" else WITHOUT_US
    [code] = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
    command, lines = [sys.executable, "-X", "utf8", "-c", missing + code], "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, cwd=folder, input=lines.encode(), capture_output=True, check=True)
    return done.stdout.decode().split("\n")[:-1]


def same_ids(tokenizer, portable, text):
    assert portable.encode(text).ids == tokenizer.encode(text), repr(text)


@pytest.fixture(scope="module")
def tokenizers_of_both_kinds(tmp_path_factory):
    kinds = [Translator.load(name).source_tokenizer for name in ("tatoeba_de_en", "number_words_en_de")]
    pairs = []
    for i, tokenizer in enumerate(kinds):
        path = tmp_path_factory.mktemp("tokenizers") / f"{i}.json"
        portable_tokenizer(tokenizer).save(str(path))
        portable = tokenizers.Tokenizer.from_file(str(path))
        portable.encode_special_tokens = True
        pairs.append((tokenizer, portable))
    return pairs


def test_a_portable_tokenizer_gives_the_same_ids_and_the_same_text(tokenizers_of_both_kinds):
    @settings(max_examples=150, deadline=None)
    @given(st.text() | st.lists(st.sampled_from([*ODD, "forty", "seven", *SPECIALS]), max_size=6).map(" ".join))
    def check(text):
        for tokenizer, portable in tokenizers_of_both_kinds:
            same_ids(tokenizer, portable, text)

    check()
    for tokenizer, portable in tokenizers_of_both_kinds:
        for text in ODD:
            same_ids(tokenizer, portable, text)
        ids = list(range(3, len(tokenizer)))[:50]
        assert portable.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids)


def test_words_of_a_language_stand_in_no_file():
    with pytest.raises(ValueError, match="spacy"):
        portable_tokenizer(words(9, language="de"))


def test_the_command_translates_with_the_engine_as_without(stdin, capsys):
    said = []
    for engine in ("pytorch", "ctranslate2"):
        stdin("".join(f"{line}\n" for line in GERMAN).encode())
        assert run("translate", "tatoeba_de_en", "--engine", engine, "--threads", 1) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""


def test_a_folder_that_is_there_and_an_unknown_format_are_refused(tmp_path, refused):
    assert str(tmp_path) in refused("export", "number_words_en_de", tmp_path, "--to", "ctranslate2")
    with pytest.raises(SystemExit):
        export("number_words_en_de", tmp_path / "new", "--to", "gguf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["ctranslate2", "page"])
def test_what_came_into_being_while_the_translator_was_read_is_left_alone(to, tmp_path, monkeypatch, refused):
    out, load = tmp_path / "out", Translator.load

    def loading(*arguments):
        out.write_text("mine", "utf-8")
        return load(*arguments)

    monkeypatch.setattr(Translator, "load", loading)
    assert "out" in refused("export", "number_words_en_de", out, "--to", to)
    assert out.read_text("utf-8") == "mine"


def session(graph):
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])


def outputs(run, inputs):
    return dict(zip([one.name for one in run.get_outputs()], run.run(None, inputs), strict=True))


def assert_same_logits_step_by_step(model, folder):
    encoder, step = (session(folder / f"{name}.onnx") for name in ("encoder", "decoder_step"))
    source, target_input = torch.tensor([[4, 9, 6, 2], [7, 2, 0, 0]]), torch.tensor([[1, 5, 6, 6, 7], [1, 9, 4, 4, 4]])
    with torch.no_grad():
        expected = model(source, target_input)
    inputs = {"source": source.numpy()}
    inputs |= outputs(encoder, inputs)
    for one in step.get_inputs():
        if one.name.startswith("past."):
            inputs[one.name] = np.zeros((2, one.shape[1], 0, one.shape[3]), np.float32)
    for i in range(target_input.size(1)):
        found = outputs(step, {**inputs, "token": target_input[:, i : i + 1].numpy()})
        np.testing.assert_allclose(found.pop("logits"), expected[:, i], atol=1e-5)
        inputs |= {name.replace("present", "past"): value for name, value in found.items()}


@pytest.mark.slow
def test_the_file_for_the_page_holds_the_model_in_8_bits(tmp_path):
    translator, path = random_translator(**LEARNED), tmp_path / "mine.page"
    assert_left_alone(translator, partial(export_page, sentences=["w4 w5", ""]), path)
    assert assert_in_8_bits_on_the_page(translator, path)["hundred"]["pairs"] == []
    sentences = ["w4 w5", "", "w6 " * 77, "w6 " * 78]
    pairs = page_hundred(random_translator(**SMALL), sentences)["pairs"]
    assert [text for text, _ in pairs] == ["w4 w5", "w6 " * 77]


def assert_in_8_bits_on_the_page(translator, path):
    content = json.loads(gzip.decompress(path.read_bytes()))
    assert (content["source"], content["target"]) == (translator.source, translator.target)
    model, weights = translator.model.eval(), translator.model.state_dict()
    assert content["longest"] == {"learned": 9, "sinusoidal": 128}[model.config.positions]
    packed = {name: weight for name, weight in weights.items() if name != "positions.table"}
    model = copy.deepcopy(model)
    model.load_state_dict(weights | dequantize(quantize(packed)))
    run = session(gzip.decompress(base64.b64decode(content["onnx"])))
    source, target_input = torch.tensor([[4, 9, 6, 2], [7, 2, 0, 0]]), torch.tensor([[1, 5, 6], [1, 9, 4]])
    gates = np.ones((len(run.get_outputs()) - 1, model.config.num_heads), np.float32)
    switches = {"head_gates": gates, "score_factor": np.array(1, np.float32)}
    switches["position_factor"] = np.array(1, np.float32)
    found = outputs(run, {"source": source.numpy(), "target_input": target_input.numpy(), **switches})
    with torch.no_grad(), record_attention(model) as weights:
        expected = model(source, target_input)[:, -1]
    np.testing.assert_allclose(found.pop("logits"), expected, atol=1e-4)
    assert found.keys() == weights.keys()
    for name, expected in weights.items():
        np.testing.assert_allclose(found[name], expected, atol=1e-5)
    return content


MARIANS = [
    SMALL,
    {**LARGER, "attention_bias": True, "output_bias": True, "activation": "silu"},
    {**LARGER, "tied_output": False, "source_vocabulary_size": 15, "activation": "gelu"},
]


def assert_same(model, logits):
    source, target_input = torch.tensor([[4, 9, 6, 2], [7, 2, 0, 0]]), torch.tensor([[1, 5, 6], [1, 9, 4]])
    with torch.no_grad():
        np.testing.assert_allclose(logits(source, target_input), model(source, target_input), atol=1e-5)


@pytest.mark.parametrize("config", MARIANS)
def test_marian_computes_the_same_and_so_does_the_way_back(config, tmp_path):
    from transformers import MarianMTModel

    model = random_translator(**config).model
    to_marian(model).save_pretrained(tmp_path)
    loaded = MarianMTModel.from_pretrained(tmp_path)

    def logits(source, target_input):
        return loaded(source, attention_mask=(source != 0).long(), decoder_input_ids=target_input).logits

    assert_same(model, logits)
    assert_same(model, from_marian(loaded))


@pytest.mark.parametrize(
    ("change", "word"),
    [({"norm_order": "pre"}, "pre"), ({"final_norm": True}, "final_norm"), ({"positions": "learned"}, "learned"),
     ({"d_v": 3}, "d_v")],
)  # fmt: skip
def test_marian_names_what_it_lacks(change, word):
    with pytest.raises(ValueError, match=word):
        to_marian(random_translator(**{**SMALL, **change}).model)


def test_a_folder_of_transformers_leaves_the_spaces_between_words(tmp_path):
    from transformers import AutoTokenizer

    tokenizer = WordTokenizer(Vocabulary([*SPECIALS, "do", "n't", "?", *(f"w{i}" for i in range(7, 19))]))
    export_marian(replace(random_translator(**SMALL), source_tokenizer=tokenizer, target_tokenizer=tokenizer), tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).decode(tokenizer.encode("do n't ?")) == "do n't ?"


def test_a_folder_of_transformers_has_one_vocabulary(tmp_path):
    with pytest.raises(ValueError, match="vocabularies"):
        export_marian(random_translator(**LARGER, source_vocabulary_size=15), tmp_path)


def test_the_page_splits_no_words_and_has_ids_of_its_own(tmp_path):
    translator = random_translator(**SMALL, pad_id=3)
    with pytest.raises(ValueError, match="pad_id"):
        page_content(translator, b"", {})
    translator = replace(random_translator(**SMALL), source_tokenizer=words(19, language="de"))
    with pytest.raises(ValueError, match="spacy"):
        page_content(translator, b"", {})


@pytest.mark.parametrize(("to", "package"), [("onnx", "onnx"), ("page", "onnx"), ("ctranslate2", "ctranslate2")])
def test_a_format_or_an_engine_whose_package_is_missing_names_it(to, package, tmp_path, monkeypatch, stdin, refused):
    monkeypatch.delitem(sys.modules, f"transformer_run.export.{to}")
    monkeypatch.setitem(sys.modules, package, None)
    assert package in refused("export", "number_words_en_de", tmp_path / "new", "--to", to)
    assert list(tmp_path.iterdir()) == []
    if to == "ctranslate2":
        stdin(b"Wie alt bist du?\n")
        assert package in refused("translate", "tatoeba_de_en", "--engine", to)


def test_an_export_that_fails_leaves_nothing(tmp_path, refused):
    assert "norm_order" in refused("export", "parser_en_en", tmp_path / "new", "--to", "marian")
    assert list(tmp_path.iterdir()) == []
