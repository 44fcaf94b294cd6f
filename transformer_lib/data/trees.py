"""Constituency trees as sequences of tokens and back, so that a translator can learn to parse."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

WORD = "XX"  # stands for each word: the parser need not repeat what it read


class Tree(NamedTuple):
    """A constituent: its label, and its parts in order. Each word is the one part of its part of speech."""

    label: str
    parts: tuple["Tree | str", ...]

    def words(self) -> list[str]:
        """The words below, from left to right."""
        return [word for part in self.parts for word in ([part] if isinstance(part, str) else part.words())]

    @property
    def is_part_of_speech(self) -> bool:
        """Whether this is the label of one word."""
        return len(self.parts) == 1 and isinstance(self.parts[0], str)


def read_trees(text: str) -> Iterator[Tree]:
    """The trees of a file in the brackets of the Penn Treebank, as they stand there.

    Raises:
        ValueError: brackets that do not match, or text outside them.
    """
    open_trees: list[tuple[str, list[Tree | str]]] = []
    for bracket, label, close, word in re.findall(r"(\()\s*([^\s()]*)|(\))|([^\s()]+)", text):
        if bracket:
            open_trees.append((label, []))
        elif not open_trees:
            raise ValueError(f"{close or word!r} stands outside all brackets: no tree is open there")
        elif word:
            open_trees[-1][1].append(word)
        else:
            name, parts = open_trees.pop()
            tree = Tree(name, tuple(parts))
            if open_trees:
                open_trees[-1][1].append(tree)
            else:
                yield tree
    if open_trees:
        raise ValueError(f"the text ends inside {len(open_trees)} open brackets; the innermost is ({open_trees[-1][0]}")


def tidy(tree: Tree) -> Tree | None:
    """The tree as it is parsed and scored: without traces, without functions such as the SBJ of NP-SBJ.

    Returns:
        None if nothing is left. The nameless bracket around a whole sentence goes, too.
    """
    if tree.label == "-NONE-":
        return None
    parts = tuple(kept for part in tree.parts if (kept := part if isinstance(part, str) else tidy(part)) is not None)
    if not parts:
        return None
    if not tree.label and len(parts) == 1 and isinstance(parts[0], Tree):
        return parts[0]
    label = tree.label if tree.label.startswith("-") else re.split(r"[-=]", tree.label)[0]  # -LRB- is a bracket
    return Tree(label, parts)


def linearize(tree: Tree) -> list[str]:
    """The tree as target tokens: `(NP`, `XX` for each word, `)NP`.

    Parts of speech are left out, as in Vinyals et al. (2015), on whom the
    paper's experiment builds.

    Source: section 6.3 [parsing].
    """
    if tree.is_part_of_speech:
        return [WORD]
    trees = [part for part in tree.parts if isinstance(part, Tree)]
    inside = [token for part in trees for token in linearize(part)]
    return [f"({tree.label}", *inside, f"){tree.label}"]


def tree_from(tokens: Iterable[str], words: Iterable[str]) -> Tree:
    """The tree that these tokens describe, over these words. The inverse of linearize; every part of speech is XX.

    Raises:
        ValueError: tokens that are no tree, another number of words, or none.
    """
    tree, faults = _mended(tokens, words)
    if faults:
        raise ValueError(faults[0])
    return tree


def mended_tree(tokens: Iterable[str], words: Iterable[str]) -> tuple[Tree, int]:
    """The tree nearest to these tokens over these words, and how many repairs it took; 0: the tokens were a tree.

    The rule, token by token: a closing bracket closes the innermost open one of its label, and with it what is open
    inside; one that no open bracket matches is left out, as is a word that is one too many. At the end missing words
    go into what is open, everything is closed, brackets without words are left out, and several trees become one S.

    Raises:
        ValueError: no words: a tree needs one.
    """
    tree, faults = _mended(tokens, words)
    return tree, len(faults)


def _mended(tokens: Iterable[str], words: Iterable[str]) -> tuple[Tree, list[str]]:
    # The nearest tree, and what each of the repairs was made for.
    remaining, open_trees, faults = list(words), [("", [])], []
    if not remaining:
        raise ValueError("words is empty: a tree has one word at least")
    for place, token in enumerate(tokens):
        problem = f"tokens[{place}] = {token!r} does not close ({open_trees[-1][0]}"
        if token.startswith("("):
            open_trees.append((token[1:], []))
        elif token == WORD and remaining:
            open_trees[-1][1].append(Tree(WORD, (remaining.pop(0),)))
        elif token == WORD:
            faults.append(f"tokens[{place}] is one more {WORD} than there are words")
        elif token.startswith(")") and token[1:] in [label for label, _ in open_trees[1:]]:
            closed = None
            while closed != token[1:]:
                closed, has_words = _close(open_trees)
                if closed != token[1:] or not has_words:
                    faults.append(problem)
        else:
            faults.append(problem)
    problem = f"{len(open_trees) - 1} brackets are open after {len(open_trees[0][1])} trees; give one whole tree"
    faults += [problem] * (len(open_trees) - 1) + [f"{len(remaining)} words have no {WORD}"] * len(remaining)
    open_trees[-1][1].extend(Tree(WORD, (word,)) for word in remaining)
    while len(open_trees) > 1:
        _close(open_trees)
    parts = open_trees[0][1]
    return (parts[0], faults) if len(parts) == 1 else (Tree("S", tuple(parts)), [*faults, problem])


def _close(open_trees: list[tuple[str, list[Tree]]]) -> tuple[str, bool]:
    # The label of the innermost open bracket, and whether it has words; without any it is left out.
    label, parts = open_trees.pop()
    if parts:
        open_trees[-1][1].append(Tree(label, tuple(parts)))
    return label, bool(parts)


def brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Each constituent but the parts of speech, as (label, first word, word after the last)."""
    found: Counter[tuple[str, int, int]] = Counter()

    def word_after(part: Tree, start: int) -> int:
        if part.is_part_of_speech:
            return start + 1
        stop = start
        for one in part.parts:
            stop = word_after(one, stop) if isinstance(one, Tree) else stop + 1
        found[part.label, start, stop] += 1
        return stop

    word_after(tree, 0)
    return found


class BracketScores(NamedTuple):
    """How well predicted trees agree with the right ones; each from 0 to 1."""

    precision: float
    recall: float
    f1: float


def bracket_scores(
    predicted: Iterable[Tree | None],
    right: Iterable[Tree],
) -> BracketScores:
    """Labelled precision, recall and F1 of all brackets together.

    None is a prediction that is no tree.

    Source: Table 4, section 6.3 [table-4].

    Raises:
        ValueError: lists of different lengths, or no brackets to find.
    """
    pairs = list(zip(predicted, right, strict=True))
    given = [Counter() if tree is None else brackets(tree) for tree, _ in pairs]
    wanted = [brackets(tree) for _, tree in pairs]
    both = zip(given, wanted, strict=True)
    hits = sum((mine & theirs).total() for mine, theirs in both)
    total_given = sum(counter.total() for counter in given)
    total_wanted = sum(counter.total() for counter in wanted)
    if not total_wanted:
        raise ValueError(f"{len(pairs)} trees without a single bracket to find")
    f1 = 2 * hits / (total_given + total_wanted)
    precision = hits / total_given if total_given else 0.0
    return BracketScores(precision, hits / total_wanted, f1)
