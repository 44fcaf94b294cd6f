"""Every item of the paper has a function, a proof and a chapter section, or a reason why not."""

import re

import pytest

from workshop.lab import correspondence
from workshop.lab.paper_ids import EXCEPTIONS, PAPER_IDS

FORMS = {
    "function": "function whose docstring says `Source: … [{}].`",
    "test": 'test marked `@pytest.mark.paper("{}")`',
    "chapter": "chapter with the target `({})=` above a heading",
}


def places():
    """Kind → id → where it stands."""
    kinds = (correspondence.functions(), correspondence.tests(), correspondence.chapters())
    return dict(zip(FORMS, kinds, strict=True))


@pytest.mark.parametrize("paper_id", PAPER_IDS)
def test_an_id_has_all_three_or_stands_in_the_list_of_exceptions(paper_id):
    missing = [kind for kind, found in places().items() if paper_id not in found]
    if paper_id in EXCEPTIONS:
        assert missing, f"{paper_id} has all three now: take it off the list of exceptions"
        assert len(EXCEPTIONS[paper_id]) > 20, "an exception needs its reason"
    else:
        assert not missing, f"{paper_id} has no {' and no '.join(FORMS[kind].format(paper_id) for kind in missing)}"


@pytest.mark.parametrize("kind", FORMS)
def test_no_place_names_an_unknown_id(kind):
    unknown = {paper_id: places()[kind][paper_id] for paper_id in set(places()[kind]) - set(PAPER_IDS)}
    assert not unknown, f"{unknown}: a new id is added in workshop/lab/paper_ids.py"


def test_every_exception_is_an_id():
    assert set(EXCEPTIONS) <= set(PAPER_IDS)


def test_an_id_is_explained_in_one_place():
    assert {i: pages for i, pages in places()["chapter"].items() if len(pages) > 1} == {}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_papers_equations_keep_their_numbers(number):
    [page] = places()["chapter"][f"eq-{number}"]
    text = (correspondence.ROOT / "book" / f"{page}.md").read_text("utf-8")
    section = text[text.index(f"(eq-{number})=") :]
    assert re.search(rf"\\tag\{{{number}\}}", section[:2500]), f"(eq-{number})= in {page}.md is not followed by \\tag"


def test_the_map_has_a_row_for_every_id():
    rows = correspondence.rows()
    assert [row.id for row in rows] == list(PAPER_IDS)
    first = rows[0]
    assert (first.chapter, first.function) == ("attention", "attention.scaled_dot_product_attention")
    assert first.file == "transformer_lib/attention.py"
    assert first.test.startswith("tests/paper/test_attention.py::test_equation_1")
