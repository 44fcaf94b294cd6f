"""A recorded result as Markdown."""

from typing import Any

TITLES = {
    "this": "this library",
    "torch": "torch.nn.Transformer",
    "marian": "transformers' Marian",
    "x-transformers": "x-transformers",
    "opennmt-py": "OpenNMT-py",
    "joeynmt": "Joey NMT",
    "ctranslate2": "CTranslate2",
}
HEADINGS = {
    "train, bucketed": "Training, bucketed batches: {padding:.0%} padding",
    "train, as they come": "Training, batches as they come: {padding:.0%} padding",
    "train": "Training, batches as they come",  # of a result from before there were two kinds
    "greedy": "Greedy decoding, {sentences} sentences together",
    "single": "Greedy decoding, one sentence at a time",
    "beam": "Beam search, {beam_size} candidates, {beam_sentences} sentences together",
}


def title(name: str) -> str:
    """The peer's name as a reader knows it."""
    plain = name.removesuffix("-bf16")
    return TITLES.get(plain, plain) + (", bf16" if name != plain else "")


def table(result: dict[str, Any]) -> str:
    """Everything a reader of the result wants to see."""
    parts = (
        [_gpu(result)] if "shapes" in result else [_task(result, task) for task in HEADINGS if task in result["tasks"]]
    )
    parts += [_notes(result), _missing(result), _where(result)]
    return "\n\n".join(filter(None, parts))


def _rows(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ratio(ratio: dict[str, float] | None) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})" if ratio else "–"


def _task(result: dict[str, Any], task: str) -> str:
    measured, about = result["tasks"][task], result["about"]
    header = ["", "version", "threads", measured["unit"], f"ratio to {title(measured['base'])} (rounds)"]
    training = task.startswith("train")
    if training:
        header += ["peak memory, GB", "parameters", "loss, first → last"]
    rows = []
    for name, peer in sorted(measured["peers"].items(), key=lambda item: -item[1]["median"]):
        median = f"{peer['median']:,.0f}" if peer["median"] >= 100 else f"{peer['median']:.1f}"
        row = [title(name), about[name]["version"], str(peer["threads"]), median, _ratio(peer["ratio"])]
        if training:
            memory = f"{peer['peak_memory_gb']:.2f}" if "peak_memory_gb" in peer else "–"
            losses = f"{peer.get('losses', about[name].get('losses'))[0]:.2f} → {peer['last_loss']:.2f}"
            row += [memory, f"{about[name]['parameters']:,}", losses]
        rows.append(row)
    return f"**{HEADINGS[task].format(**result['work'], padding=measured.get('padding'))}**\n\n{_rows(header, rows)}"


def _gpu(result: dict[str, Any]) -> str:
    parts = []
    for shape, measured in result["shapes"].items():
        header = ["", "version", measured["unit"], "ratio to torch.nn.Transformer, bf16 (rounds)", "TFLOP/s"]
        header += ["of the measured peak", "of the datasheet's", "peak memory, GB"]
        rows = []
        for name, peer in measured["peers"].items():
            sheet = peer["fraction_of_datasheet_peak"]
            row = [title(name), peer["version"], f"{peer['median']:,.0f}", _ratio(peer["ratio"])]
            row += [f"{peer['tflops']:.3g}", f"{peer['fraction_of_measured_peak']:.1%}"]
            row += [f"{sheet:.1%}" if sheet else "–", f"{peer.get('peak_memory_gb', 0):.2f}"]
            rows.append(row)
        heading = f"**{shape}**, batches of {measured['batch_target_tokens']:,} target tokens, {result['device_name']}"
        parts.append(f"{heading}\n\n{_rows(header, rows)}")
    peak = result["peak"]
    sheet = f"; the datasheet says {peak['datasheet_tflops']}" if peak["datasheet_tflops"] else ""
    measured = f"{peak['measured_tflops']:.3g} TFLOP/s"
    parts.append(f"Peak of one large bf16 product: {measured}{sheet}. Padding does not count.")
    return "\n\n".join(parts)


def _notes(result: dict[str, Any]) -> str:
    # What differs between the peers beside their speed.
    return "\n".join(f"- {title(name)}: {note}" for name, note in result["notes"].items())


def _missing(result: dict[str, Any]) -> str:
    lines = [f"- {title(name)} was left out: {why}" for name, why in result["left_out"].items()]
    lines += [f"- {title(name)} was refused: {why}" for name, why in result["refused"].items()]
    return "\n".join(lines)


def _where(result: dict[str, Any]) -> str:
    source = result
    loads = [entry["load"] for entry in result["loads"] if entry["load"] is not None]
    load = f", load average before the rounds {min(loads)} to {max(loads)}" if loads else ""
    return (
        f"Recorded {source['date']}: {source['device']} ({source['processor']}), "
        f"torch {source['versions']['torch']}, commit {source['commit']}, {source['seconds']:.0f} s{load}; "
        f"`{source['command']}`."
    )
