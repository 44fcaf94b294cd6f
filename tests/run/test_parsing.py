"""Parsing: the split, what a small parser learns, scores beside NLTK's, the extrapolation, and the record."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import parsing
from experiments.parsing import Treebank, by_length, evalb_form, extrapolated, parsed, punctuation, scores, trained
from transformer_lib.data import WordTokenizer
from transformer_lib.data.corpora import data_folder
from transformer_lib.data.trees import Tree, bracket_scores, linearize, mended_tree, read_trees, tidy

RECORD = Path(parsing.__file__).parent / "results" / "parsing.json"
TEXT = """
( (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (NNS mats)))) (. .)))
( (S (NP (NN tea)) (VP (VBD gave) (PRT (RP up))) (. .)))
( (S (NP (DT The) (NN tea)) (VP (VBD sat)) (. .)))
"""
TREES = [tree for raw in read_trees(TEXT) if (tree := tidy(raw)) is not None]
SMALL = {"num_layers": 1, "d_model": 32, "d_ff": 32, "num_heads": 2, "d_k": 16, "d_v": 16, "p_drop": 0.0}
SHORT = {"num_steps": 200, "batch_tokens": 200, "warmup_steps": 80}


def bank() -> Treebank:
    source = WordTokenizer.train(" ".join(tree.words()) for tree in TREES)
    target = WordTokenizer.train(" ".join(linearize(tree)) for tree in TREES)
    return Treebank({"train": TREES, "validation": TREES, "test": TREES[::-1]}, source, target)


def in_brackets(tree: Tree) -> str:
    return f"({tree.label} {' '.join(p if isinstance(p, str) else in_brackets(p) for p in tree.parts)})"


LABELS = st.sampled_from(["S", "NP", "VP", "PRT", "ADVP"])
LEAVES = st.sampled_from(["NN", "VB", ",", "."]).map(lambda label: Tree(label, ("w",)))
SHAPES = st.recursive(
    LEAVES, lambda parts: st.builds(Tree, LABELS, st.lists(parts, min_size=1, max_size=4).map(tuple)), max_leaves=9
).filter(lambda tree: not tree.is_part_of_speech)
TOKENS = st.lists(st.sampled_from(["XX", "(S", ")S", "(NP", ")NP", "(PRT", ")PRT", "(ADVP", ")ADVP"]), max_size=20)


def by_nltk(tree: Tree, tags: list[str], rule: bool) -> set[tuple[str, int, int, int]]:
    """The brackets of a tree as NLTK reads it; equal ones are numbered, since its measures take sets."""
    from nltk import ParentedTree

    read = ParentedTree.fromstring(in_brackets(tree))
    kept = [i for i, tag in enumerate(tags) if not (rule and tag in {",", ".", ":", "``", "''"})]
    leaves = read.treepositions("leaves")
    found: Counter[tuple[str, int, int]] = Counter()
    for place in read.treepositions():
        node = read[place]
        if isinstance(node, str) or node.height() == 2:
            continue
        below = [i for i, leaf in enumerate(leaves) if leaf[: len(place)] == place and i in kept]
        if below:
            label = "ADVP" if rule and node.label() == "PRT" else node.label()
            found[label, kept.index(below[0]), kept.index(below[-1])] += 1
    return {(*bracket, number) for bracket, count in found.items() for number in range(count)}


@pytest.mark.paper("table-4")
@settings(max_examples=100, deadline=None)
@given(SHAPES, TOKENS)
def test_scores_are_those_of_nltk(tree, tokens):
    measures = pytest.importorskip("nltk.metrics")
    mine, _ = mended_tree(tokens, tree.words())
    tags = [label for label, _ in parsing.parts_of_speech(tree)]
    hidden = punctuation(tree)
    if len(hidden) == len(tags) or mine.is_part_of_speech:
        return
    for rule in (False, True):
        pair = [evalb_form(mine, hidden), evalb_form(tree, hidden)] if rule else [mine, tree]
        if pair[1].is_part_of_speech or pair[0].is_part_of_speech:
            return
        found = bracket_scores([pair[0]], [pair[1]])
        test, reference = by_nltk(mine, tags, rule), by_nltk(tree, tags, rule)
        assert found.precision == pytest.approx(measures.precision(reference, test))
        assert found.recall == pytest.approx(measures.recall(reference, test))
        assert found.f1 == pytest.approx(measures.f_measure(reference, test) or 0.0)


def test_evalbs_rule_by_hand():
    tea = TREES[1]
    assert linearize(evalb_form(tea, punctuation(tea))) == "(S (NP XX )NP (VP XX (ADVP XX )ADVP )VP )S".split()
    lines = ["(S (NP XX )NP (VP XX (ADVP XX )ADVP XX )VP )S"]  # the full stop hangs too low; PRT is called ADVP
    found = scores(lines, [tea])
    assert found["evalb"]["f1"] == 1.0
    assert found["all_brackets"]["f1"] == 0.5  # S and NP of four
    assert (found["broken"], found["miscounted"], found["repairs"]) == (0, 0, 0)


def test_broken_trees_are_mended_and_counted():
    found = scores([" ".join(linearize(TREES[0])), "(S (NP XX )NP (VP XX"], TREES[:2])
    assert (found["broken"], found["miscounted"], found["repairs"]) == (1, 1, 4)  # two words and two brackets
    assert 0.5 < found["all_brackets"]["f1"] < 1


@pytest.mark.slow
@pytest.mark.paper("parsing")
def test_a_small_parser_learns_three_trees_and_keeps_their_order():
    parser, curve = trained(bank(), SMALL, SHORT, seed=0)
    assert [step for step, _ in curve] == [200]
    lines = parsed(parser, bank(), TREES[::-1], beam_size=3)
    assert lines == [" ".join(linearize(tree)) for tree in TREES[::-1]]
    assert scores(lines, TREES[::-1])["evalb"]["f1"] == 1.0


def test_parsers_that_do_not_read_see_the_number_of_words_alone():
    cat, gave, sat = TREES
    long = Tree("S", tuple(Tree("NN", (str(i),)) for i in range(20)))
    without = parsing.without_reading(bank()._replace(trees={"train": [cat, gave, sat, sat]}), [gave, cat, long])
    assert without["commonest"] == [" ".join(linearize(tree)) for tree in (sat, cat, cat)]
    assert without["nested"][0] == "(S XX (VP XX (VP XX (VP XX )VP )VP )VP )S"
    assert scores(without["nested"], [gave, cat, long])["broken"] == 0


def test_an_error_that_falls_as_a_power_is_continued():
    trees = [400, 800, 1600, 3200]
    found = extrapolated(trees, [1 - 10 * n**-0.5 for n in trees], 40_000)
    assert found == {"trees": 40_000, "exponent": 0.5, "f1": round(1 - 10 / math.sqrt(40_000), 4)}


@pytest.mark.slow
def test_the_command_goes_on_from_what_is_done_and_scores_the_test_trees_once(tmp_path, monkeypatch):
    begun, written = [], {}

    def small(share, seed, training):
        begun.append((share, seed))
        return one_run(share, seed, SHORT | {"num_steps": 2}, SMALL)

    one_run = parsing.one_run
    monkeypatch.setattr(parsing, "treebank", lambda share=1: bank()._replace(
        trees=bank().trees | {"train": (4 * TREES)[::share]}
    ))  # fmt: skip
    monkeypatch.setattr(parsing, "one_run", small)
    monkeypatch.setattr(parsing, "PARTS", tmp_path)
    monkeypatch.setattr(parsing, "BEYOND_INPUT", 5)
    monkeypatch.setattr(parsing, "write_result", lambda name, record: written.update(record) or Path(name))
    monkeypatch.setattr("sys.argv", ["parsing", "--seeds", "0", "--steps", "2"])
    parsing.main()
    assert begun == [(1, 0), (2, 0), (4, 0)]
    (tmp_path / "2-4-0.json").unlink()
    parsing.main()
    assert begun[3:] == [(4, 0)]
    assert [run["trees"] for run in written["runs"]] == [12, 6, 3]
    assert [len(run["hypotheses"]) for run in written["runs"]] == [2, 1, 1]
    assert [band["sentences"] for band in written["runs"][0]["by_length"]] == [3, 0, 0, 0]
    assert written["extrapolated"]["trees"] == 40_000


@pytest.mark.slow
@pytest.mark.skipif(not (data_folder() / "treebank").exists(), reason="needs the treebank sample: TRANSFORMER_LIB_DATA")
def test_whole_articles_are_held_out(monkeypatch):
    by_number = dict(parsing.articles())
    monkeypatch.setattr(parsing, "articles", by_number.items)
    split = parsing.treebank(share=4).trees
    assert len(by_number) == 199
    assert sum(map(len, by_number.values())) == 3914
    assert split["test"] == [tree for number, trees in by_number.items() if number[-1] == "0" for tree in trees]
    assert split["validation"] == [tree for number, trees in by_number.items() if number[-1] == "5" for tree in trees]
    learned = [tree for number, trees in by_number.items() if number[-1] not in "05" for tree in trees]
    assert split["train"] == learned[::4]
    assert len(learned) + len(split["test"]) + len(split["validation"]) == 3914


@pytest.mark.deep
@pytest.mark.skipif(not RECORD.exists(), reason="experiments/results/parsing.json is not recorded yet")
@pytest.mark.skipif(not (data_folder() / "treebank").exists(), reason="needs the treebank sample: TRANSFORMER_LIB_DATA")
def test_the_record_scores_again_from_its_hypotheses():
    record, bank = json.loads(RECORD.read_text("utf-8")), parsing.treebank()
    right = bank.trees
    for run in record["runs"]:
        for split, lines in run["hypotheses"].items():
            assert scores(lines, right[split]) == run["scores"][split]
        assert by_length(run["hypotheses"]["validation"], right["validation"]) == run["by_length"]
        if "test" in run["hypotheses"]:
            counted = parsing.counted_right(run["hypotheses"]["test"], right["test"])
            assert counted == run["counted_right"]
            assert counted["sentences"] == len(right["test"]) - run["scores"]["test"]["miscounted"]
    for split, found in record["without_reading"].items():
        lines = parsing.without_reading(bank, right[split])
        assert {name: scores(written, right[split]) for name, written in lines.items()} == found
    assert {run["trees"] for run in record["runs"] if "test" in run["scores"]} == {len(right["train"])}
