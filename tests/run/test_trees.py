import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.data.trees import (
    Tree,
    bracket_scores,
    brackets,
    linearize,
    mended_tree,
    read_trees,
    tidy,
    tree_from,
)
from transformer_lib.reference import tree_tokens

TEXT = """
( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD sat) (NP (-NONE- *-1)) (PP-LOC (IN on) (NP (NN mats)))) (. .)))
( (FRAG (-LRB- -LRB-) (NP=2 (NN tea)) (-RRB- -RRB-)))
"""
TREEBANK = Path(os.environ.get("TRANSFORMER_LIB_DATA", "nowhere")) / "treebank" / "treebank.zip"


@pytest.fixture
def cat():
    tree = tidy(next(read_trees(TEXT)))
    assert tree is not None
    return tree


@pytest.mark.paper("parsing")
def test_a_tree_becomes_the_tokens_written_down_by_hand(cat):
    assert cat.words() == ["The", "cat", "sat", "on", "mats", "."]
    assert " ".join(linearize(cat)) == "(S (NP XX XX )NP (VP XX (PP XX (NP XX )NP )PP )VP XX )S"


def test_tidying_keeps_brackets_that_are_words():
    _, tea = read_trees(TEXT)
    assert " ".join(linearize(tidy(tea))) == "(FRAG XX (NP XX )NP XX )FRAG"
    assert tidy(tea).words() == ["-LRB-", "tea", "-RRB-"]
    assert tidy(Tree("NP", (Tree("-NONE-", ("*",)),))) is None


LABELS = st.sampled_from(["S", "NP", "VP", "PP", "SBAR"])
LEAVES = st.sampled_from(["a", "b", "c"]).map(lambda word: Tree("NN", (word,)))
TREES = st.recursive(
    LEAVES, lambda parts: st.builds(Tree, LABELS, st.lists(parts, min_size=1, max_size=4).map(tuple)), max_leaves=12
).filter(lambda tree: not tree.is_part_of_speech)


def as_lists(tree):
    """The nested lists that the loop takes."""
    return tree.parts[0] if tree.is_part_of_speech else [tree.label, *map(as_lists, tree.parts)]


@pytest.mark.paper("parsing")
@settings(max_examples=100, deadline=None)
@given(TREES)
def test_the_tokens_are_those_of_the_loop(tree):
    assert linearize(tree) == tree_tokens(as_lists(tree))


def without_parts_of_speech(tree):
    if tree.is_part_of_speech:
        return Tree("XX", tree.parts)
    return Tree(tree.label, tuple(without_parts_of_speech(part) for part in tree.parts))


def in_brackets(tree):
    return f"({tree.label} {' '.join(p if isinstance(p, str) else in_brackets(p) for p in tree.parts)})"


@pytest.mark.paper("parsing")
@settings(max_examples=100, deadline=None)
@given(TREES)
def test_any_tree_survives_the_way_there_and_back(tree):
    assert list(read_trees(in_brackets(tree))) == [tree]
    assert tree_from(linearize(tree), tree.words()) == without_parts_of_speech(tree)
    assert linearize(without_parts_of_speech(tree)) == linearize(tree)


@pytest.mark.paper("table-4")
def test_f1_worked_by_hand(cat):
    # Right: S, NP, VP, PP, NP. Predicted: S, NP, VP with the PP outside, PP, NP: the VP is wrong. 4 of 5 both ways;
    # the second prediction is no tree and finds none of the two brackets there are.
    wrong = tree_from("(S (NP XX XX )NP (VP XX )VP (PP XX (NP XX )NP )PP XX )S".split(), cat.words())
    tea = tidy(list(read_trees(TEXT))[1])
    scores = bracket_scores([wrong, None], [cat, tea])
    assert scores == pytest.approx((4 / 5, 4 / 7, 2 * 4 / (5 + 7)))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("(S XX )S", "1 words"),
        ("(S XX XX XX )S", r"tokens\[3\]"),
        ("(S XX XX )NP", r"tokens\[3\].*\(S"),
        ("(S XX (NP )NP XX )S", r"tokens\[3\].*\(NP"),
        ("(S (NP XX XX )NP", "brackets"),
        ("(S XX )S (S XX )S", "2 trees"),
        ("XX XX", "2 trees"),
    ],
)
def test_tokens_that_are_no_tree_are_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        tree_from(tokens.split(), ["a", "b"])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["XX", "(S", ")S", "(NP", ")NP", "(VP", ")VP", "<unk>"]), max_size=15), st.integers(1, 5)
)
def test_any_tokens_become_a_tree_of_all_words_and_only_broken_ones_count_repairs(tokens, number):
    words = [str(i) for i in range(number)]
    tree, repairs = mended_tree(tokens, words)
    assert tree.words() == words
    assert tree_from(linearize(tree), words) == tree
    try:
        whole = tree_from(tokens, words)
    except ValueError:
        assert repairs > 0
    else:
        assert (tree, repairs) == (whole, 0)


@pytest.mark.parametrize(
    ("tokens", "mended", "repairs"),
    [
        ("(S (NP XX (VP XX )S", "(S (NP XX (VP XX )VP )NP )S", 2),  # two brackets close with the outer one
        ("(S XX )VP XX )S", "(S XX XX )S", 1),  # a bracket that was never opened
        ("(S XX )S", "(S (S XX )S XX )S", 2),  # a word behind the end, and an S around the two
        ("(S (NP XX )NP", "(S (NP XX )NP XX )S", 2),  # a word and a bracket are missing
        ("(S XX XX XX )S", "(S XX XX )S", 1),
        ("(S (NP )NP XX XX )S", "(S XX XX )S", 1),
    ],
)
def test_each_repair_follows_the_rule(tokens, mended, repairs):
    tree, found = mended_tree(tokens.split(), ["a", "b"])
    assert (" ".join(linearize(tree)), found) == (mended, repairs)


def test_a_tree_without_words_is_refused():
    with pytest.raises(ValueError, match="words"):
        mended_tree(["(S", ")S"], [])


def test_broken_files_and_scores_without_a_pair_are_refused(cat):
    for text, named in (("(S (NN a)", r"\(S"), ("(S (NN a)))", r"\)")):
        with pytest.raises(ValueError, match=named):
            list(read_trees(text))
    with pytest.raises(ValueError, match="0 trees"):
        bracket_scores([], [])
    assert bracket_scores([None], [cat]) == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="longer"):
        bracket_scores([cat], [cat, cat])


@pytest.mark.deep
@pytest.mark.paper("parsing")
@pytest.mark.skipif(not TREEBANK.exists(), reason="needs the treebank sample: set TRANSFORMER_LIB_DATA")
def test_every_tree_of_the_treebank_sample_survives():
    with zipfile.ZipFile(TREEBANK) as archive:
        files = sorted(name for name in archive.namelist() if name.endswith(".mrg"))
        trees = [tree for name in files for tree in read_trees(archive.read(name).decode("ascii"))]
    assert len(trees) == 3914
    for tree in map(tidy, trees):
        assert brackets(tree) == brackets(tree_from(linearize(tree), tree.words()))
