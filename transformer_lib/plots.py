"""The charts that chapters share, in one look that reads in both themes, in print and without colour.

Every chart has a title, named axes with units and a description, which is its text for a screen reader.
Charts bring their own white ground, so that they look the same on a light and on a dark page.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from .attention_maps import attention_axes, attention_records

INK = "#1f2933"
# The part of the blue scale from which white text in a cell is easier to read than black.
WHITE_FROM = 0.72
# Okabe and Ito's colours, told apart by every kind of colour vision; black and blue first for contrast. Each keeps
# 3:1 on white, for which olive stands where they have sky blue. The book's dark page exchanges them, and every other
# colour of a chart, by the list in book/_static/book-chart-colours.js.
COLOURS = ["#0b0b0b", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c7400"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3]]


def heat_map(
    values: Tensor | Mapping[str, Tensor],
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    *,
    title: str,
    description: str,
    row_title: str,
    column_title: str,
    value_title: str = "weight",
    choice_title: str = "Head",
    limits: tuple[float, float] = (0.0, 1.0),
    cell: int = 34,
):
    """An Altair grid of numbers with the value written into each cell.

    Args:
        values: (rows, columns), or several such by name, one of which a drop-down list shows.
        row_labels, column_labels: one for each row and column; a label may occur twice.
        limits: the values at the two ends of the colour scale.
        cell: side of a cell in pixels.

    Raises:
        ValueError: values of another shape than the labels.
    """
    import altair as alt

    grids = {"": values} if isinstance(values, Tensor) else dict(values)
    records = [
        {"choice": name, "row": i, "column": j, "value": round(number, 4)}
        for name, grid in grids.items()
        for i, numbers in enumerate(_checked(grid, row_labels, column_labels).tolist())
        for j, number in enumerate(numbers)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("column:O", title=column_title, axis=_label_axis(alt, column_labels, orient="top", labelAngle=-45)),
        y=alt.Y("row:O", title=row_title, axis=_label_axis(alt, row_labels)),
        tooltip=[alt.Tooltip("value:Q", title=value_title, format=".4f")],
    )
    size = {"width": cell * len(column_labels), "height": cell * len(row_labels)}
    chart = _cells(alt, base, "value", value_title, limits).properties(title=title, description=description, **size)
    if len(grids) > 1:
        pick = alt.selection_point(
            fields=["choice"],
            bind=alt.binding_select(options=list(grids), name=f"{choice_title}: "),
            value=next(iter(grids)),
        )
        chart = chart.add_params(pick).transform_filter(pick)
    return _styled(alt, chart)


def attention_explorer(
    sentences: Mapping[str, tuple[Mapping[str, Tensor], Sequence[str], Sequence[str]]],
    *,
    title: str,
    description: str,
):
    """An Altair grid of one head's weights; lists choose the sentence, the attention and the head.

    Args:
        sentences: name → (weights, source, written) as in attention_records.
    """
    import altair as alt

    heads: dict[tuple[int, str, int], dict[str, Any]] = {}  # one record for each, its weights as lists: a small page
    for number, sentence in enumerate(sentences.values()):
        for record in attention_records(*sentence):
            place = number, record["attention"], record["head"]
            lists = heads.setdefault(place, dict(zip("sah", place, strict=True)) | {"i": [], "j": [], "w": []})
            for short, long in (("i", "row"), ("j", "column"), ("w", "weight")):
                lists[short].append(round(record[long], 3))
    axes = [
        {name: attention_axes(name, source, written) for name in weights}
        for weights, source, written in sentences.values()
    ]
    numbers = sorted({head for _, _, head in heads})
    picks = [
        alt.param(name=f"map_{key}", value=values[0], bind=alt.binding_select(options=values, labels=labels, name=text))
        for key, values, labels, text in (
            ("sentence", list(range(len(axes))), list(sentences), "Sentence: "),
            ("attention", list(axes[0]), list(axes[0]), "Attention: "),
            ("head", numbers, [str(number) for number in numbers], "Head: "),
        )
    ]
    tokens = f"{json.dumps(axes, ensure_ascii=False)}[map_sentence][map_attention]"
    bare: dict[str, Any] = {"ticks": False, "domain": False}
    columns = alt.Axis(labelExpr=f"{tokens}[1][datum.value]", labelAngle=-45, orient="top", **bare)
    rows = alt.Axis(labelExpr=f"{tokens}[0][datum.value]", **bare)
    base = (
        alt.Chart(alt.Data(values=list(heads.values())))
        .transform_filter("datum.s === map_sentence && datum.a === map_attention && datum.h === map_head")
        .transform_flatten(["i", "j", "w"])
        .transform_calculate(query=f"{tokens}[0][datum.i]", key=f"{tokens}[1][datum.j]")
        .encode(
            x=alt.X("j:O", title="key", axis=columns),
            y=alt.Y("i:O", title="query", axis=rows),
            tooltip=[
                alt.Tooltip("query:N", title="query"),
                alt.Tooltip("key:N", title="key"),
                alt.Tooltip("w:Q", title="weight", format=".3f"),
            ],
        )
    )
    size = {"width": alt.Step(34), "height": alt.Step(34)}  # pixels of a cell
    chart = _cells(alt, base, "w", "weight", (0, 1)).properties(title=title, description=description, **size)
    return _styled(alt, chart.add_params(*picks))


def line_chart(
    series: Mapping[str, tuple[Sequence[int | float], Sequence[int | float]]],
    *,
    title: str,
    description: str,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
    height: int = 280,
):
    """An Altair chart of named lines that differ in dash as well as in colour; pointing at a line reads its values."""
    import altair as alt

    names = list(series)
    records = [
        {"series": name, "x": float(x), "y": float(y)}
        for name, (xs, ys) in series.items()
        for x, y in zip(xs, ys, strict=True)
    ]
    columns = max(1, min(3, 330 // (30 + 7 * max(map(len, names), default=0))))  # a phone has room for 330 pixels
    legend = None if len(names) == 1 else alt.Legend(orient="bottom", title=None, symbolStrokeWidth=3, columns=columns)
    chart = (
        alt.Chart(alt.Data(values=records))
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("x:Q", title=x_title, scale=alt.Scale(type="log" if log_x else "linear", nice=False)),
            y=alt.Y("y:Q", title=y_title, scale=alt.Scale(type="log") if log_y else alt.Scale(zero=True)),
            color=alt.Color("series:N", scale=alt.Scale(domain=names, range=COLOURS[: len(names)]), legend=legend),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=names, range=DASHES[: len(names)]), legend=legend
            ),
            tooltip=[
                alt.Tooltip("series:N", title="line"),
                alt.Tooltip("x:Q", title=x_title, format=".4~g"),
                alt.Tooltip("y:Q", title=y_title, format=".4~g"),
            ],
        )
        .properties(title=title, description=description, width=520, height=height)
    )
    return _styled(alt, chart)


def matplotlib_style() -> AbstractContextManager[None]:
    """The same look for matplotlib figures, as a `with` block."""
    import matplotlib as mpl
    from cycler import cycler

    dashes = [(0, tuple(dash)) if dash[1] else "-" for dash in DASHES]
    return mpl.rc_context(
        {
            "figure.facecolor": "white",
            "figure.dpi": 120,
            "figure.constrained_layout.use": True,
            "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=dashes),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 12,
            "axes.titleweight": "bold",
            "text.color": INK,
            "axes.labelcolor": INK,
            "font.size": 10,
        }
    )


def _cells(alt: Any, base: Any, field: str, title: str, limits: tuple[float, float]):
    """A square for each record, darker the larger its number, with the number written into it."""
    scale = alt.Scale(scheme="blues", domain=limits)
    turn = limits[0] + WHITE_FROM * (limits[1] - limits[0])
    squares = base.mark_rect(stroke="#d5dae0").encode(color=alt.Color(f"{field}:Q", title=title, scale=scale))
    numbers = base.mark_text(fontSize=12).encode(
        text=alt.Text(f"{field}:Q", format=".2f"),
        color=alt.condition(f"datum.{field} > {turn:g}", alt.value("white"), alt.value(COLOURS[0])),
    )
    return squares + numbers


def _checked(grid: Tensor, row_labels: Sequence[str], column_labels: Sequence[str]) -> Tensor:
    if grid.shape != (len(row_labels), len(column_labels)):
        raise ValueError(
            f"values have shape {tuple(grid.shape)}, but there are {len(row_labels)} row labels "
            f"and {len(column_labels)} column labels"
        )
    return grid.detach().to("cpu", torch.float64)


def _label_axis(alt: Any, labels: Sequence[str], **options: Any):
    # Rows and columns are numbered, so that a word which occurs twice keeps two places; the axis shows the word.
    return alt.Axis(labelExpr=f"{json.dumps(list(labels))}[datum.value]", ticks=False, domain=False, **options)


def _styled(alt: Any, chart: Any):
    return (
        chart.configure(background="white", padding=12)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=14, color=INK)
        .configure_axis(labelColor=INK, titleColor=INK, labelFontSize=12, titleFontSize=12, gridColor="#e4e7eb")
        .configure_legend(labelColor=INK, titleColor=INK, labelFontSize=12, labelLimit=0)
    )
