"""What changed since 2017: each diff applies to the package as it stands, and the variant does what it claims."""

import json
import math
import re
import statistics
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_lib
from experiments import since_then
from transformer_lib import Transformer
from transformer_lib.reference import rotate
from workshop.lab import patches
from workshop.lab.decoder_only import DecoderOnly
from workshop.lab.patches import FOLDER, apply, patched_package

NAMES = sorted(path.stem for path in FOLDER.glob("*.diff"))
RECORD = Path(since_then.__file__).parent / "results" / "since_then.json"
SMALL = {"num_layers": 2, "d_model": 16, "d_ff": 30, "num_heads": 4, "d_k": 6, "d_v": 4, "p_drop": 0.0}


def config_of(library, **changes):
    return library.TransformerConfig(vocabulary_size=20, **{**SMALL, **changes})


def part(library, name):
    return import_module(f"{library.__name__}.{name}")


def ids(*shape):
    return torch.randint(3, 20, shape)


@pytest.mark.parametrize("names", [*[(name,) for name in NAMES], since_then.TODAY], ids="+".join)
def test_a_diff_applies_to_the_package_and_its_model_learns(names):
    with patched_package(*names) as library:
        model = library.Transformer(config_of(library, norm_order="pre"))
        source, target = ids(2, 5), ids(2, 4)
        loss = library.label_smoothing_loss(model(source, target), target)
        loss.backward()
        assert all(weight.grad.abs().max() > 0 for weight in model.parameters())
        assert not isinstance(model, Transformer)


def test_every_diff_is_measured_and_every_measured_diff_exists():
    measured = {name for variant in since_then.VARIANTS.values() for name in variant.diffs}
    assert measured == set(NAMES) == set(since_then.TODAY)


def test_the_page_lists_whole_parts_of_a_diff():
    page = (Path(since_then.__file__).parents[1] / "book" / "since_then.md").read_text("utf-8")
    listed = re.findall(r"since_then/(\w+)\.diff\n:language: diff\n:lines: (.*)\n", page)
    assert listed
    for name, ranges in listed:
        lines = [*(FOLDER / f"{name}.diff").read_text("utf-8").splitlines(), "@@"]
        for first, last in re.findall(r"(\d+)-(\d+)", ranges):
            after = next(line for line in lines[int(last) :] if line.strip())
            assert lines[int(first) - 1].startswith(("@@", "---")), (name, first)
            assert after.startswith(("@@", "---")), (name, last)


def test_a_diff_whose_lines_are_gone_is_refused_and_says_what_to_do(tmp_path, monkeypatch):
    package = tmp_path / "transformer_lib"
    package.mkdir()
    diff = (
        "--- a/transformer_lib/layers.py\n+++ b/transformer_lib/layers.py\n@@ -7,3 +7,3 @@\n one\n-two\n+three\n end\n"
    )
    monkeypatch.setattr(patches, "FOLDER", tmp_path)
    (tmp_path / "some.diff").write_text(diff, "utf-8")
    (package / "layers.py").write_text("moved\none\ntwo\nend\n", "utf-8")
    apply("some", tmp_path)
    assert (package / "layers.py").read_text("utf-8") == "moved\none\nthree\nend\n"
    with pytest.raises(ValueError, match=r"layers\.py"):
        apply("some", tmp_path)


def test_rms_norm_ignores_the_scale_of_its_input_and_subtracts_no_mean():
    x = torch.randn(3, 16, dtype=torch.float64)
    with patched_package("rms_norm") as library:
        norm = part(library, "layers").AddAndNorm(config_of(library)).norm.double()
        final = part(library, "transformer").final_norm(config_of(library, norm_order="pre"))
    assert torch.allclose(norm(1000 * x), norm(x), atol=1e-12)
    assert (norm(x + 5) - norm(x)).abs().max() > 0.5
    assert (norm(x + 5).mean(dim=-1) > 0.5).all()
    for row, found in zip(x.tolist(), norm(x).tolist(), strict=True):
        root_mean_square = math.sqrt(sum(number**2 for number in row) / len(row))
        assert np.allclose(found, [number / root_mean_square for number in row], atol=1e-12)
    assert isinstance(final, torch.nn.RMSNorm)


def test_rotary_scores_depend_on_the_distance_alone():
    with patched_package("rotary") as library:
        turned = part(library, "multi_head_attention").turned
    one_query, one_key = torch.randn(2, 1, 8, dtype=torch.float64)
    query, key = turned(one_query.expand(9, 8), one_key.expand(9, 8))
    scores = query @ key.T
    for distance in range(-8, 9):
        diagonal = scores.diagonal(distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-12)
    assert scores[0].std() > 0.01
    assert torch.allclose(query.norm(dim=-1), one_query.norm().expand(9), atol=1e-12)
    for position in range(9):
        assert np.allclose(query[position], rotate(one_query[0].numpy(), position), atol=1e-12)
    same = one_query[0].numpy()
    assert np.allclose([rotate(same, 3) @ rotate(same, 7)], [rotate(same, 13) @ rotate(same, 17)], atol=1e-12)


@pytest.mark.parametrize("names", [("rotary",), ("grouped",), ("rotary", "grouped")], ids="+".join)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_decoding_with_the_cache_gives_the_probabilities_of_the_whole_pass(names, beam_size):
    with patched_package(*names) as library:
        model = library.Transformer(config_of(library)).double().eval()
        source = ids(1, 6)
        decoding = part(library, "decoding")
        [hypotheses] = decoding.beam_hypotheses(model, source, beam_size, 0.6, max_length=7)
        for hypothesis in hypotheses:
            target = torch.tensor([[model.config.bos_id, *hypothesis.tokens]])
            with torch.no_grad():
                log_p = model(source, target[:, :-1]).log_softmax(dim=-1)
            total = log_p.gather(-1, target[:, 1:, None]).sum().item()
            assert math.isclose(total, hypothesis.log_probability, abs_tol=1e-9)


def gated_feed_forward(x, w_gate, w_in, w_out):
    # x (n, d_model), w_gate and w_in (d_model, width)
    rows = []
    for position in x:
        gates = [g / (1 + math.exp(-g)) for g in position @ w_gate]
        hidden = [g * h for g, h in zip(gates, position @ w_in, strict=True)]
        rows.append(np.array(hidden) @ w_out)
    return np.array(rows)


def test_the_gated_network_equals_the_loops():
    with patched_package("gated") as library:
        network = library.FeedForward(6, 9).double()
    x = torch.randn(1, 3, 6, dtype=torch.float64)
    gate, inner, outer = (m.weight.detach().numpy().T for m in (network.gate, network.inner, network.outer))
    assert inner.shape == gate.shape == (6, 2 * 9 // 3)
    with torch.no_grad():
        found = network(x)[0]
    assert np.allclose(found, gated_feed_forward(x[0].numpy(), gate, inner, outer), atol=1e-12)


def test_two_groups_are_heads_that_share_their_keys_and_values():
    own = transformer_lib.MultiHeadAttention(16, 4, 6, 5).double()
    with patched_package("grouped") as library:
        grouped = library.MultiHeadAttention(16, 4, 6, 5).double()
    weights = dict(grouped.state_dict())
    for kind, width in (("key", 6), ("value", 5)):
        name = f"{kind}_projection.weight"
        per_group = weights[name].unflatten(0, (2, width))
        weights[name] = per_group.repeat_interleave(2, dim=0).flatten(0, 1)
    own.load_state_dict(weights)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    with torch.no_grad():
        found, expected = grouped(x, x, x), own(x, x, x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("names", [(), since_then.TODAY], ids=["2017", "today"])
def test_in_a_decoder_alone_no_position_sees_a_later_one(names):
    with patched_package(*names) as library:
        model = DecoderOnly(library.Transformer(config_of(library, norm_order="pre")).double()).eval()
        text = ids(1, 6)
        with torch.no_grad():
            before = model(None, text)
            for place in range(6):
                changed = text.clone()
                changed[0, place] = 3 + (text[0, place] - 2) % 17
                moved = (model(None, changed) - before).abs().amax(dim=-1)[0]
                assert (moved[:place] == 0).all()
                assert (moved[place:] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotary", "all of today"])
def test_a_variant_is_trained_and_scored_as_recorded(name):
    words, [recorded, *_] = since_then.number_words(), json.loads(RECORD.read_text("utf-8"))["runs"][name]
    few = words._replace(scored=words.scored[:5])
    found = since_then.one_run(since_then.VARIANTS[name], 0, few, since_then.TRAINING | {"num_steps": 2})
    assert found.keys() == recorded.keys()
    assert found["parameters"] == recorded["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_an_interval_covers_the_truth_19_times_in_20(runs):
    draws = torch.randn(20_000, runs).tolist()
    found = [since_then.interval(draw, [0.0] * runs) for draw in draws]
    covered = [abs(one["mean"]) <= one["half_width"] for one in found]
    assert statistics.fmean(covered) == pytest.approx(0.95, abs=0.006)


def test_the_record_has_every_variant_with_the_same_seeds_and_says_what_its_runs_say():
    record = json.loads(RECORD.read_text("utf-8"))
    assert list(record["runs"]) == list(since_then.VARIANTS)
    assert {len(runs) for runs in record["runs"].values()} == {record["seeds"]}
    assert record["seeds"] >= 3
    assert record["against_2017"] == since_then.against_2017(record["runs"])
    assert {name: v["diffs"] for name, v in record["variants"].items()} == {
        name: list(v.diffs) for name, v in since_then.VARIANTS.items()
    }
