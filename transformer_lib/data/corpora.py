"""The corpora: their addresses, and the check of their sha256."""

import hashlib
import http.client
import io
import os
import urllib.request
import zipfile
from pathlib import Path

from .normalization import letters
from .number_words import number_pairs
from .text_files import TextPairs, columns, lines

MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
MULTI30K_SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}
TATOEBA_URL = (
    "https://raw.githubusercontent.com/rioyshky/translation/de48b7027f7318d77010a6e08ed928c10748c23d/deu-eng.zip"
)
TATOEBA_SHA256 = "b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28"
HELD_OUT_PARTS = {0: "test", 1: "val"}  # of 128 parts of the English sentences of Tatoeba
# Corpus, its splits (training, validation, then for testing), its languages.
CORPORA = {
    "number_words": (("train", "val", "test"), ("en", "de")),
    "multi30k": (("train", "val", "test_2016_flickr", "test_2017_flickr"), ("de", "en")),
    "tatoeba": (("train", "val", "test"), ("de", "en")),
}


def load_pairs(corpus: str, split: str, source: str, target: str) -> list[tuple[str, str]]:
    """Sentence pairs of one split, stripped of outer spaces, in the order of the files.

    Args:
        corpus: a key of CORPORA.
        source, target: the two languages, "de" and "en" in either order.

    Raises:
        ValueError: an unknown corpus, split or language, an altered file, or sides of different line counts.
        FileNotFoundError: a file that is neither here nor to be had from upstream.
    """
    check_corpus(corpus)
    splits, languages = CORPORA[corpus]
    if split not in splits:
        raise ValueError(f"{corpus} has no split {split!r}; it has {', '.join(splits)}")
    if {source, target} != set(languages):
        raise ValueError(f"{corpus} is in {' and '.join(sorted(languages))}; got {source!r} to {target!r}")
    if corpus == "multi30k":
        return list(TextPairs([_multi30k_file(split, language) for language in (source, target)]))
    pairs = number_pairs(split) if corpus == "number_words" else split_by_english(_tatoeba_pairs(), split)
    return pairs if source == "en" else [(german, english) for english, german in pairs]


def check_corpus(corpus: str) -> None:
    """Raise ValueError for a name that is no key of CORPORA."""
    if corpus not in CORPORA:
        known = ", ".join(CORPORA)
        raise ValueError(f"unknown corpus {corpus!r}; known: {known}; files of your own have paths that exist")


def split_by_english(pairs: list[tuple[str, str]], split: str) -> list[tuple[str, str]]:
    """The (English, German) pairs of one split, so that no held-out sentence was seen in training, in either language.

    An English sentence stands with up to dozens of translations: a split by pair would test on what was trained. So
    the hash of the sentence decides, of its letters and digits alone: "Hi." and "Hi!" stay together. Held-out splits
    take the first translation of each sentence; what shares its German with them is left out of the training split.

    Args:
        split: "train", "val" or "test"; the last two are 1/128 of the English sentences each.
    """
    sides = [[letters(side) for side in pair] for pair in pairs]
    parts = {english: hashlib.sha256(english.encode()).digest()[0] % 128 for english, _ in sides}
    if split == "train":
        held_out = {german for english, german in sides if parts[english] in HELD_OUT_PARTS}
        return [
            pair
            for pair, (english, german) in zip(pairs, sides, strict=True)
            if parts[english] not in HELD_OUT_PARTS and german not in held_out
        ]
    first: dict[str, tuple[str, str]] = {}
    for pair, (english, _) in zip(pairs, sides, strict=True):
        if HELD_OUT_PARTS.get(parts[english]) == split:
            first.setdefault(english, pair)
    return list(first.values())


def data_folder() -> Path:
    """The folder of the corpora: TRANSFORMER_LIB_DATA, or a cache folder in the user's home."""
    configured = os.environ.get("TRANSFORMER_LIB_DATA")
    return Path(configured) if configured else Path.home() / ".cache" / "transformer_lib"


def fetch(path: Path, url: str, sha256: str) -> bytes:
    """The bytes of a file with this hash: read from the path, or downloaded to it first.

    Raises:
        ValueError: a file with another hash, here or upstream; what is here stays as it is.
        FileNotFoundError: no such file here, and upstream does not answer.
    """
    by_hand = f"To place it by hand, download {url} to {path}."
    if path.exists():
        content = path.read_bytes()
        _check_hash(content, sha256, str(path), f"Delete the file to download it again. {by_hand}")
        return content
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content = response.read()
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise FileNotFoundError(f"{path} is missing and {url} cannot be reached ({error}). {by_hand}") from error
    _check_hash(content, sha256, url, by_hand)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A reader never meets half a file under the real name, nor one process the half of another.
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)
    return content


def _check_hash(content: bytes, expected: str, name: str, remedy: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise ValueError(f"{name} is truncated or altered: expected sha256 {expected}, found {found}. {remedy}")


def _multi30k_file(split: str, language: str) -> Path:
    name = f"{split}.{language}.gz"
    path = data_folder() / "multi30k" / name
    fetch(path, MULTI30K_URL + name, MULTI30K_SHA256[name])
    return path


def _tatoeba_pairs() -> list[tuple[str, str]]:
    content = fetch(data_folder() / "tatoeba" / "deu-eng.zip", TATOEBA_URL, TATOEBA_SHA256)
    with zipfile.ZipFile(io.BytesIO(content)).open("deu.txt") as file:
        return list(columns(lines(file, file.name), file.name))
