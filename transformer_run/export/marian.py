"""A folder that Hugging Face's transformers loads as a MarianMTModel with its tokenizer."""

from pathlib import Path
from typing import Any

from transformer_lib.data.tokenizers import SPECIALS
from transformer_lib.decoding import longest_source
from transformer_lib.interop.marian import to_marian

from ..translator import Translator
from .portable_tokenizer import portable_tokenizer, write_readme

README = """import sys
from transformers import AutoTokenizer, MarianMTModel

tokenizer, model = AutoTokenizer.from_pretrained("."), MarianMTModel.from_pretrained(".")
for line in sys.stdin:
    batch, tokens = tokenizer(line.strip(), return_tensors="pt", truncation=True), []
    if batch["input_ids"].size(1) > 1:  # more than <eos>
        tokens = model.generate(**batch, max_new_tokens=batch["input_ids"].size(1) + {extra})[0].tolist()
    print(tokenizer.decode([i for i in tokens if i not in ({bos_id}, {eos_id})]))
```

These are the greedy translations of `transformer_lib`; of a line of more than {longest} tokens the first {longest}
are read, as there. With `num_beams=4` it is a beam.
"""


def export_marian(translator: Translator, folder: Path) -> None:
    """Write a folder that transformers loads as a MarianMTModel and its tokenizer; its README.md says how.

    Args:
        folder: exists, and is empty.

    Raises:
        ImportError: transformers is missing.
        ValueError: what to_marian refuses, a tokenizer of spaCy's words, or two vocabularies.
    """
    if translator.source_tokenizer is not translator.target_tokenizer:
        raise ValueError("two vocabularies: a folder of transformers has one tokenizer; train with --tokenizer bpe")
    tokenizer = _transformers_tokenizer(translator)
    hf: Any = to_marian(translator.model)
    hf.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    described = folder / "tokenizer_config.json"  # by the name that older versions know, too
    described.write_text(described.read_text("utf-8").replace("TokenizersBackend", "PreTrainedTokenizerFast"), "utf-8")
    write_readme(translator, folder, README, "transformers", "transformers torch")


def _transformers_tokenizer(translator: Translator) -> Any:
    import tokenizers
    import transformers

    pieces = portable_tokenizer(translator.source_tokenizer)
    pad, bos, eos, unk = SPECIALS
    end = [(eos, translator.model.config.eos_id)]
    pieces.post_processor = tokenizers.processors.TemplateProcessing(single=f"$A {eos}", special_tokens=end)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        unk_token=unk,
        split_special_tokens=True,  # the text "<eos>" is text
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=longest_source(translator.model.config) + 1,
    )
