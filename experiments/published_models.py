"""A published Marian translator in this library: the same logits, the same words, and its time beside its own library.

    python experiments/published_models.py                               sizes of opus-mt-en-de, random weights
    python experiments/published_models.py Helsinki-NLP/opus-mt-en-de    the published weights, over the network
    python experiments/published_models.py FOLDER                        the same, from a folder in the published form

The chapter runs these functions. Where no network reaches the hub, it reads a small translator of number words from a
folder: Hugging Face's model, trained by Hugging Face's loss, saved in the published form.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_lib import Transformer, beam_search, greedy_decode
from transformer_lib.data import english_number, german_number
from transformer_lib.interop import from_marian

# The configuration of Helsinki-NLP/opus-mt-en-de. Its translations end at the limit without a forced <eos> here.
OPUS_MT_EN_DE = {
    **{"vocab_size": 58_101, "d_model": 512, "max_position_embeddings": 512},
    **{"encoder_layers": 6, "decoder_layers": 6},
    **{"encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048},
    **{"encoder_attention_heads": 8, "decoder_attention_heads": 8},
    **{"activation_function": "swish", "scale_embedding": True, "dropout": 0.1},
    **{"pad_token_id": 58_100, "decoder_start_token_id": 58_100},
    **{"eos_token_id": 0, "forced_eos_token_id": None},
}
SMALL = {
    **{"d_model": 64, "max_position_embeddings": 64, "dropout": 0.0},
    **{"encoder_layers": 2, "decoder_layers": 1},
    **{"encoder_ffn_dim": 128, "decoder_ffn_dim": 128},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
}
HELD_OUT = (29, 47, 65, 83, 92)  # of the numbers below 100


def load(name: str | Path) -> tuple[Any, Any]:
    """A published translator and its tokenizer.

    Args:
        name: on Hugging Face's hub, or a folder.
    """
    from transformers import MarianMTModel, MarianTokenizer

    model = MarianMTModel.from_pretrained(name).float().eval()
    return model, MarianTokenizer.from_pretrained(name)


def with_random_weights(**sizes: Any) -> Any:
    """A MarianMTModel of opus-mt-en-de's sizes, or of others.

    Its biases and gains are such as training would leave.
    """
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    model = MarianMTModel(MarianConfig(**OPUS_MT_EN_DE | sizes)).eval()
    # Fresh ones are 0 and 1: moved to a wrong place, they would change nothing.
    vectors = [p for p in model.parameters() if p.dim() == 1]
    with torch.no_grad():
        for vector in (*vectors, model.final_logits_bias):
            vector.add_(0.1 * torch.randn_like(vector))
    return model


@torch.no_grad()
def largest_difference(
    ours: Transformer,
    theirs: Any,
    source: Tensor,
    target_input: Tensor,
) -> float:
    """Between both libraries' logits of a sentence pair, by the largest logit.

    The pair has no padding.
    """
    expected = theirs(source, decoder_input_ids=target_input).logits
    difference = ours(source, target_input) - expected
    return (difference.abs().max() / expected.abs().max()).item()


def their_words(
    theirs: Any,
    source: Tensor,
    length: int,
    beam_size: int = 1,
) -> list[int]:
    """What Hugging Face's library writes for one sentence.

    The sum of log-probabilities decides, as at α = 0.
    """
    search: dict[str, Any] = {"num_beams": beam_size}
    if beam_size > 1:
        search |= {"length_penalty": 0.0, "early_stopping": False}
    ids = theirs.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        # as published configurations say
        bad_words_ids=[[theirs.config.pad_token_id]],
        max_new_tokens=length,
        do_sample=False,
        **search,
    )
    return until_eos(ids[0, 1:].tolist(), theirs.config.eos_token_id)


def our_words(
    ours: Transformer,
    source: Tensor,
    length: int,
    beam_size: int = 1,
) -> list[int]:
    """What this library writes for one sentence."""
    decode: Callable[..., Tensor] = greedy_decode
    if beam_size > 1:
        decode = partial(beam_search, beam_size=beam_size, alpha=0.0)
    ids = decode(ours, source, max_length=length)
    return until_eos(ids[0].tolist(), ours.config.eos_id)


def until_eos(ids: list[int], eos_id: int) -> list[int]:
    """The tokens up to the first <eos>, which is kept."""
    return ids[: ids.index(eos_id) + 1] if eos_id in ids else ids


def medians(*runs: Callable[[], Any], repeats: int = 3) -> list[float]:
    """The median seconds of each call.

    They take turns, so that all meet the same machine; a first turn does not
    count.
    """
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats + 1):
        for run, own in zip(runs, times, strict=True):
            started = time.perf_counter()
            run()
            own.append(time.perf_counter() - started)
    return [statistics.median(own[1:]) for own in times]


def number_words_translator(folder: Path, num_steps: int = 60) -> None:
    """Train Hugging Face's model on the number words below 100 but five.

    It is saved in the published form.
    """
    from transformers import MarianConfig, MarianMTModel

    numbers = [n for n in range(100) if n not in HELD_OUT]
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    words = [word for pair in pairs for word in pair]
    tokenizer = word_tokenizer(folder, words)
    start = tokenizer.pad_token_id
    torch.manual_seed(0)
    own = {
        "pad_token_id": start,
        "decoder_start_token_id": start,
        "vocab_size": len(tokenizer),
        "init_std": 64**-0.5,
    }
    config = MarianConfig(**OPUS_MT_EN_DE | SMALL | own)
    model = MarianMTModel(config).train()
    english, german = (list(side) for side in zip(*pairs, strict=True))
    batch = tokenizer(
        english,
        text_target=german,
        padding=True,
        return_tensors="pt",
    )
    # -100: does not count in the loss
    labels = batch.labels.masked_fill(batch.labels == start, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(num_steps):
        loss = model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            labels=labels,
        ).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def word_tokenizer(folder: Path, texts: list[str]) -> Any:
    """A Marian tokenizer of both languages; its pieces are these texts' words.

    Its files go into the folder.
    """
    import sentencepiece
    from transformers import MarianTokenizer

    for side in ("source", "target"):
        with (folder / f"{side}.spm").open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=file,
                model_type="word",
                use_all_vocab=True,
                minloglevel=2,
            )
    files = [folder / f"{name}.spm" for name in ("source", "target")]
    read = sentencepiece.SentencePieceProcessor(model_file=str(files[0]))
    pieces = [read.id_to_piece(i) for i in range(read.vocab_size())]
    pieces = [piece for piece in pieces if piece.startswith("▁")]
    # the order in published vocabularies
    known = ["</s>", "<unk>", *pieces, "<pad>"]
    files.append(folder / "vocab.json")
    ids = {piece: i for i, piece in enumerate(known)}
    files[2].write_text(json.dumps(ids), "utf-8")
    return MarianTokenizer(*map(str, files), source_lang="en", target_lang="de")


def main() -> None:
    """Compare the two libraries on one translator and one sentence, and print what is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="?", help="of a translator on the hub, or a folder; default: random weights")
    parser.add_argument("--sentence", default="I have seen forty seven birds.", help="to translate")
    parser.add_argument("--length", type=int, default=32, help="most tokens to write (default: 32)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.name:
        theirs, tokenizer = load(args.name)
        source = tokenizer(args.sentence, return_tensors="pt").input_ids
    else:
        theirs, tokenizer = with_random_weights(), None
        source = torch.randint(1, 58_000, (1, 8))
    ours = from_marian(theirs)
    for beam_size in (1, 4):
        mine = partial(our_words, ours, source, args.length, beam_size)
        peer = partial(their_words, theirs, source, args.length, beam_size)
        times = medians(mine, peer)
        print(f"beam {beam_size}: the same tokens: {mine() == peer()}; our time by theirs: {times[0] / times[1]:.2f}")
        if tokenizer is not None:
            print(tokenizer.decode(mine(), skip_special_tokens=True))
    target_input = torch.tensor([[ours.config.bos_id, *our_words(ours, source, args.length)]])
    print(f"largest difference of logits: {largest_difference(ours, theirs, source, target_input):.1e}")


if __name__ == "__main__":
    main()
