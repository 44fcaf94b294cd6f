import matplotlib as mpl
import pytest
import torch
from browser import contrast, rgb

from transformer_lib.plots import COLOURS, heat_map, line_chart, matplotlib_style

TEXTS = {"row_title": "query", "column_title": "key", "title": "Weights", "description": "A grid of weights."}


def test_a_heat_map_shows_each_value_at_its_row_and_column():
    values = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    spec = heat_map(values, ["a", "b"], ["x", "y", "it's"], **TEXTS).to_dict()
    records = spec["data"]["values"]
    assert {(r["row"], r["column"]): r["value"] for r in records}[0, 2] == pytest.approx(0.7)
    assert len(records) == 6
    assert spec["description"] == "A grid of weights."
    assert spec["title"] == "Weights"
    assert spec["layer"][0]["encoding"]["x"]["axis"]["labelExpr"] == '["x", "y", "it\'s"][datum.value]'
    assert spec["config"]["background"] == "white"


@pytest.mark.parametrize("colour", COLOURS)
def test_every_line_stands_out_from_white_paper(colour):
    """WCAG 1.4.11: a ratio of 3 for what one must see to understand a drawing."""
    assert contrast(rgb(colour), rgb("#ffffff")) >= 3


def test_text_in_a_cell_turns_white_where_the_blue_is_dark():
    values = torch.tensor([[0.0, 40.0, 100.0]])
    spec = heat_map(values, ["a"], ["x", "y", "z"], limits=(0.0, 100.0), **TEXTS).to_dict()
    colour = spec["layer"][1]["encoding"]["color"]
    assert colour["condition"] == {"test": "datum.value > 72", "value": "white"}
    assert colour["value"] == COLOURS[0]


def test_several_grids_get_a_list_to_choose_from():
    spec = heat_map({"head 1": torch.eye(2), "head 2": torch.ones(2, 2)}, ["a", "a"], ["x", "x"], **TEXTS).to_dict()
    [choice] = spec["params"]
    assert choice["bind"]["options"] == ["head 1", "head 2"]
    assert len(spec["data"]["values"]) == 8


def test_values_of_another_shape_than_the_labels_are_refused():
    with pytest.raises(ValueError, match=r"values have shape \(2, 3\), but there are 2 row labels and 2 column labels"):
        heat_map(torch.zeros(2, 3), ["a", "b"], ["x", "y"], **TEXTS)


def test_lines_differ_in_dash_as_well_as_in_colour():
    lines = {"one": ([1, 2], [3.0, 4.0]), "two": ([1, 2], [5.0, 6.0])}
    spec = line_chart(lines, title="t", description="d", x_title="step", y_title="loss in nats", log_y=True).to_dict()
    dashes = spec["encoding"]["strokeDash"]["scale"]
    assert dashes["domain"] == ["one", "two"]
    assert dashes["range"][0] != dashes["range"][1]
    assert spec["encoding"]["color"]["scale"]["range"] == COLOURS[:2]
    assert spec["encoding"]["y"]["scale"]["type"] == "log"
    assert spec["encoding"]["y"]["title"] == "loss in nats"
    single = line_chart({"a": ([1], [2.0])}, title="t", description="d", x_title="x", y_title="y").to_dict()
    assert single["encoding"]["color"]["legend"] is None


def test_the_matplotlib_look_ends_with_its_block():
    before = mpl.rcParams["figure.facecolor"], mpl.rcParams["axes.spines.top"]
    with matplotlib_style():
        assert mpl.rcParams["axes.spines.top"] is False
        assert len(mpl.rcParams["axes.prop_cycle"].by_key()["linestyle"]) == len(COLOURS)
    assert (mpl.rcParams["figure.facecolor"], mpl.rcParams["axes.spines.top"]) == before
