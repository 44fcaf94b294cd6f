"""The trace that a page steps through: its tensors are those of a fresh run, and it meets every id on the path.

Needs no browser; test_stepper_page.py opens the page.
"""

import ast
import html
import json
import re
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import transformer_lib
from transformer_lib import record_attention
from transformer_lib.fast import watcher
from workshop.lab.paper_ids import PAPER_IDS
from workshop.site.book_stepper import DIGITS, NAME, description, payloads, terms
from workshop.site.forward_functions import MODULES, functions, ids_of
from workshop.site.forward_trace import chapter, sentence, trace

pytestmark = pytest.mark.slow

LIBRARY = Path(transformer_lib.__file__).parent
ATTENTIONS = ("encoder.0.self", "decoder.0.self", "decoder.0.cross")


def run(model):
    with torch.no_grad():
        return model(sentence().source, sentence().target_input)


@pytest.fixture(scope="module")
def model():
    """The chapter's own, trained."""
    assert trace().steps
    return chapter()["model"]


@pytest.fixture(scope="module")
def page():
    """What the script hands to the page."""
    return json.loads(payloads()[NAME].removeprefix(f'LiveTranslator.receive("{NAME}",').rstrip(");\n"))


def same(ours, fresh):
    return ours.shape == fresh.shape and ours.dtype == fresh.dtype and torch.allclose(ours, fresh, rtol=1e-6, atol=1e-6)


def frames_of(name):
    """For each call of this function, in order: what it was given, and all that its lines bound or returned."""
    for index, frame in enumerate(trace().frames):
        if frame.function.name == name:
            steps = [step for step in trace().steps if step.frame == index]
            given, bound = (
                {n: trace().tensors[i] for s in part for n, i in s.values.items()} for part in (steps[:1], steps[1:])
            )
            yield given, bound


class Computed(TorchFunctionMode):
    """Keeps every tensor that PyTorch computes."""

    def __init__(self):
        super().__init__()
        self.tensors = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if type(result) is torch.Tensor:
            self.tensors.append(result.clone())
        return result


def test_every_tensor_is_one_that_a_fresh_run_computes(model):
    with Computed() as fresh, record_attention(model):
        run(model)
    known = [sentence().source, sentence().target_input, *fresh.tensors]
    lost = [i for i, tensor in enumerate(trace().tensors) if not any(same(tensor, other) for other in known)]
    assert lost == []


def test_each_module_is_given_and_gives_what_hooks_see_in_a_fresh_run(model):
    seen = {}
    names = {module: name for name, module in model.named_modules()}

    def note(module, inputs, output):
        seen.setdefault(names[module], []).append(([i for i in inputs if isinstance(i, torch.Tensor)], output))

    handles = [module.register_forward_hook(note) for module in names]
    run(model)
    for handle in handles:
        handle.remove()
    compared = 0
    for index, frame in enumerate(trace().frames):
        if not frame.function.name.endswith(".forward"):
            continue
        inputs, output = seen[frame.module].pop(0)
        call, *rest = (step for step in trace().steps if step.frame == index)
        ours = [trace().tensors[place] for place in call.values.values()]
        assert all(same(*pair) for pair in zip(ours, inputs, strict=True)), frame.module
        assert all(same(trace().tensors[s.values["return"]], output) for s in rest if "return" in s.values), (
            frame.module
        )
        compared += 1
    assert compared >= 14
    ours = [name for name in seen if type(model.get_submodule(name)).__module__.rpartition(".")[2] in MODULES]
    assert [name for name in ours if seen[name]] == []


def test_scores_weights_and_outputs_of_each_attention_are_equation_1(model):
    with record_attention(model) as recorded:
        run(model)
    for name, (given, bound) in zip(ATTENTIONS, frames_of("scaled_dot_product_attention"), strict=True):
        assert same(bound["weights"], recorded[name])
        products = torch.einsum("bhqd,bhkd->bhqk", given["query"], given["key"]) / 32**0.5
        torch.testing.assert_close(bound["scores"], products)
        kernel = F.scaled_dot_product_attention(given["query"], given["key"], given["value"], given["mask"])
        torch.testing.assert_close(bound["weights @ value"], kernel)


def test_the_page_gets_each_number_to_four_digits(page):
    assert DIGITS == 4
    assert len(page["tensors"]) == len(trace().tensors)
    for written, tensor in zip(page["tensors"], trace().tensors, strict=True):
        assert written["shape"] == list(tensor.shape)
        values = torch.tensor(written["values"], dtype=torch.float64).view(tensor.shape)
        assert torch.allclose(values, tensor.double(), rtol=5.1e-4, atol=1e-12)


def on_the_path(model):
    """The ids in the docstrings of all functions that run in a fresh forward pass, and of their classes."""
    called = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, _event, _argument: called.add(frame.f_code))
    with record_attention(model):
        run(model)
    sys.setprofile(before)
    ids = set()
    for code in (code for code in called if Path(code.co_filename).is_relative_to(LIBRARY)):
        tree = ast.parse(Path(code.co_filename).read_text("utf-8"))
        for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            name = getattr(owner, "name", "")
            for node in (node for node in owner.body if isinstance(node, ast.FunctionDef)):
                if code.co_qualname == f"{name}.{node.name}".removeprefix("."):
                    ids |= {*ids_of(node), *(ids_of(owner) if name else [])}
    return ids


def test_every_id_on_the_path_is_met(page, model):
    met = {one for step in page["steps"] for one in step["ids"]}
    assert met == set(page["ids"]) == on_the_path(model)
    assert {"eq-1", "mha", "eq-2", "pe", "embed", "three-uses", "causal-mask", "post-norm"} <= met <= set(PAPER_IDS)


def test_every_line_that_binds_a_tensor_has_a_term_and_every_term_is_met():
    met = {(trace().frames[step.frame].function.name, name) for step in trace().steps for name in step.values}
    assert {(function, name) for function, names in terms().items() for name in names} <= met
    lines = [(trace().frames[s.frame].function.name, name) for s in trace().steps if not s.call for name in s.values]
    assert [one for one in lines if not terms().get(one[0], {}).get(one[1], ("", ""))[1]] == []


def test_an_axis_of_one_name_has_one_size_in_a_call(page):
    for step in page["steps"]:
        sizes = {}
        for _name, place, axes, _term in step["values"]:
            shape = page["tensors"][place]["shape"]
            assert len(axes) == len(shape)
            for axis, size in zip(axes, shape, strict=True):
                sizes.setdefault(axis, set()).add(size)
        assert all(len(found - {1}) <= 1 for found in sizes.values()), step  # a mask's axis of 1 is broadcast


def test_each_listing_is_the_librarys_source_and_has_the_lines_that_run(page):
    for function in page["functions"]:
        source = (LIBRARY / function["file"]).read_text("utf-8").splitlines()
        for number, coloured in function["lines"]:
            assert html.unescape(re.sub("<[^>]+>", "", coloured)).strip() == source[number - 1].strip()
        assert not any('"""' in line for _, line in function["lines"])
    for step in page["steps"]:
        listed = [number for number, _ in page["functions"][page["frames"][step["frame"]]["function"]]["lines"]]
        assert set(range(step["lines"][0], step["lines"][1] + 1)) <= set(listed)


def test_tracing_leaves_no_trace_behind(model):
    before = sys.gettrace()
    trace.cache_clear()
    steps = len(trace().steps)
    assert sys.gettrace() is before
    assert watcher() is None
    assert steps == len(description()["steps"])


def test_an_array_without_names_for_its_axes_is_reported():
    function = functions()[str(LIBRARY / "attention.py"), "masked_softmax"]
    with pytest.raises(ValueError, match=r"masked_softmax: other has shape \(2, 3\).*forward_terms.toml"):
        function.axes("other", torch.zeros(2, 3))
