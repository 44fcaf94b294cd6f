"""What each exported folder has: our tokenizers as JSON files of the `tokenizers` library, and a README.md."""

import json
from pathlib import Path
from typing import Any

from transformer_lib.data.normalization import INVISIBLE
from transformer_lib.data.tokenizers import SPECIALS, STAND_IN, UNK_ID, WORD_START, Tokenizer
from transformer_lib.decoding import EXTRA, longest_output, longest_source

from ..translator import Translator

HEAD = """# {source} to {target}, for {program}

Needs `pip install {packages}` and nothing else. In this folder, a line in, its translation out:

```python
"""
# Python's str.split also splits at these four; \s is Unicode's white space.
SPACES = r"[\s\x1c-\x1f]+"
# The text "<eos>" is no end of a sentence. <unk> may stand for itself.
WRITTEN_SPECIALS = rf"(?<!\S)({'|'.join(SPECIALS[:UNK_ID])})(?!\S)"


def portable_tokenizer(tokenizer: Tokenizer) -> Any:
    """A `tokenizers.Tokenizer` that gives the same ids to a text and the same text to ids.

    Set its `encode_special_tokens` after loading it from a file, which does not keep that: the text "<eos>" is text.

    Raises:
        ValueError: words split by the rules of a language, which are spaCy's, or lower-cased by Python's.
    """
    import tokenizers

    saved = tokenizer.to_json()
    if saved["kind"] == "bpe":
        model = tokenizers.Tokenizer.from_str(json.dumps(saved["model"]))
        mark = tokenizers.normalizers.Replace(WORD_START, STAND_IN)
        model.normalizer = tokenizers.normalizers.Sequence([*_normalizers(tokenizers), mark])
        unmark = tokenizers.decoders.Replace(STAND_IN, WORD_START)
        model.decoder = tokenizers.decoders.Sequence([model.decoder, unmark])
        return _texts_alone(model)
    if saved["language"] is not None or saved["lowercase"]:
        remedy = "train with --tokenizer bpe or space"
        raise ValueError(f"tokenizer = spacy ({saved['language']}): a file of `tokenizers` lacks its rules; {remedy}")
    ids = {token: i for i, token in enumerate(saved["vocabulary"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=SPECIALS[UNK_ID]))
    specials = tokenizers.normalizers.Replace(tokenizers.Regex(WRITTEN_SPECIALS), SPECIALS[UNK_ID])
    model.normalizer = tokenizers.normalizers.Sequence([*_normalizers(tokenizers), specials])
    model.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "removed")
    model.add_special_tokens(list(SPECIALS))
    return _texts_alone(model)


def write_tokenizers(translator: Translator, folder: Path) -> dict[str, str]:
    """Write the source's and the target's tokenizer; returns their two names for README.md, or twice that of one."""
    source, target = translator.source_tokenizer, translator.target_tokenizer
    names = ("tokenizer.json", "tokenizer.json") if source is target else ("source.json", "target.json")
    for name, side in zip(names, (source, target), strict=True):
        portable_tokenizer(side).save(str(folder / name))
    return {"source_file": names[0], "target_file": names[1]}


def write_readme(translator: Translator, folder: Path, text: str, program: str, packages: str, **more: str) -> None:
    """Write README.md: what the folder is and needs, then this text from its program on.

    Both get the translator's languages and special ids, and the limits of `translate`.
    """
    model, config = translator.model, translator.model.config
    limits = {"longest": longest_source(model.config), "extra": EXTRA, "most": longest_output(model.config)}
    ids = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    names = {"source": translator.source, "target": translator.target, "program": program, "packages": packages}
    written = (HEAD + text).format(**names, **limits, **ids, **more)
    (folder / "README.md").write_text(written, "utf-8")


def _normalizers(tokenizers: Any) -> list[Any]:
    # What data.normalization does.
    tidy, pattern = tokenizers.normalizers, tokenizers.Regex
    spaces = tidy.Replace(pattern(SPACES), " ")
    return [tidy.Replace(pattern(INVISIBLE.pattern), ""), tidy.NFC(), spaces, tidy.Strip()]


def _texts_alone(model: Any) -> Any:
    model.encode_special_tokens = True
    return model
