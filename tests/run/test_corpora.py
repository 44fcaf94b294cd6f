import gzip
import hashlib
import http.client
import io
import shutil
import urllib.error
import zipfile
from pathlib import Path

import pytest
from command_line import raising

from transformer_lib.data import corpora, load_pairs
from transformer_lib.data.corpora import fetch, split_by_english

CONTENT = b"eins\nzwei\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "https://data.invalid/file.gz"


@pytest.fixture
def upstream(monkeypatch):
    """A function that makes upstream serve these bytes; it gives the list of the addresses that will be asked for."""

    def serve(content):
        asked = []

        def opened(url, timeout):
            asked.append(url)
            return io.BytesIO(content)

        monkeypatch.setattr(corpora.urllib.request, "urlopen", opened)
        return asked

    return serve


def test_a_file_is_downloaded_once_and_kept(upstream, tmp_path):
    asked = upstream(CONTENT)
    path = tmp_path / "deep" / "file.gz"
    assert fetch(path, URL, SHA256) == fetch(path, URL, SHA256) == CONTENT
    assert asked == [URL]
    assert [p.name for p in path.parent.iterdir()] == ["file.gz"]


def test_an_altered_file_is_named_with_both_hashes_and_stays(upstream, tmp_path):
    asked = upstream(CONTENT)
    path = tmp_path / "file.gz"
    path.write_bytes(CONTENT[:-3])
    found = hashlib.sha256(CONTENT[:-3]).hexdigest()
    with pytest.raises(ValueError, match=f"{SHA256}.*{found}") as error:
        fetch(path, URL, SHA256)
    assert all(named in str(error.value) for named in (str(path), URL))
    assert path.read_bytes() == CONTENT[:-3]
    assert asked == []


def test_an_altered_download_is_not_kept(upstream, tmp_path):
    upstream(b"<html>404</html>")
    with pytest.raises(ValueError, match=SHA256):
        fetch(tmp_path / "file.gz", URL, SHA256)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", [urllib.error.URLError("no route"), http.client.IncompleteRead(b"half")])
def test_a_download_that_fails_says_where_to_place_the_file(monkeypatch, tmp_path, failure):
    monkeypatch.setattr(corpora.urllib.request, "urlopen", raising(failure))
    with pytest.raises(FileNotFoundError, match="no route|IncompleteRead") as error:
        fetch(tmp_path / "file.gz", URL, SHA256)
    assert all(named in str(error.value) for named in (URL, str(tmp_path / "file.gz")))


def test_the_data_folder_is_the_environments_or_a_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(tmp_path))
    assert corpora.data_folder() == tmp_path
    monkeypatch.delenv("TRANSFORMER_LIB_DATA")
    assert corpora.data_folder().parts[-2:] == (".cache", "transformer_lib")


SIZES = {"train": 29_000, "val": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000}


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_multi30k_has_its_published_sizes(multi30k, split, size):
    pairs = load_pairs("multi30k", split, "de", "en")
    assert len(pairs) == size
    assert all(a and b and a == a.strip() and b == b.strip() for a, b in pairs)
    if split == "train":
        first = hashlib.sha256("\t".join(pairs[0]).encode()).hexdigest()
        assert first == "9aa86bf1a2266c9a7a9d44805408456bf9c46649a77d4b1d0fb65fc4131e262c"
        assert len(set(pairs)) == 28_997


def test_a_truncated_corpus_file_is_refused(multi30k, monkeypatch, tmp_path, upstream):
    asked = upstream(b"")
    (tmp_path / "multi30k").mkdir()
    for name in ("val.de.gz", "val.en.gz"):
        shutil.copyfile(multi30k / name, tmp_path / "multi30k" / name)  # not its mode, which may forbid to write
    damaged = tmp_path / "multi30k" / "val.en.gz"
    damaged.write_bytes(gzip.compress(b"one line\n"))
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="val.en.gz"):
        load_pairs("multi30k", "val", "de", "en")
    assert asked == []


@pytest.mark.deep
def test_tatoeba_keeps_held_out_sentences_out_of_training_in_both_languages(tatoeba):
    splits = {split: load_pairs("tatoeba", split, "en", "de") for split in ("train", "val", "test")}
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 166_760, "val": 1065, "test": 1054}
    for side in (0, 1):
        seen = {pair[side].casefold().strip(" .!?") for pair in splits["train"]}
        for split in ("val", "test"):
            sentences = [pair[side].casefold().strip(" .!?") for pair in splits[split]]
            assert seen.isdisjoint(sentences)
    assert load_pairs("tatoeba", "val", "de", "en") == [(german, english) for english, german in splits["val"]]


@pytest.mark.parametrize("corpus", ["number_words", "tatoeba"])
def test_each_side_is_in_the_language_asked_for(corpus, monkeypatch):
    pairs = [(f"word {n}", f"Wort {n}") for n in range(600)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("deu.txt", "".join(f"{english}\t{german}\n" for english, german in pairs))
    monkeypatch.setattr(corpora, "number_pairs", lambda _split: pairs)
    monkeypatch.setattr(corpora, "fetch", lambda *_: packed.getvalue())
    for source, target, sides in (("en", "de", ["word", "Wort"]), ("de", "en", ["Wort", "word"])):
        found = load_pairs(corpus, "val", source, target)
        assert found
        assert all([side.split()[0] for side in pair] == sides for pair in found)


def test_a_split_by_english_sentence_ignores_marks_and_capitals():
    held_out = [word for n in range(600) if split_by_english([(word := f"Word {n}.", "x")], "test")]
    pairs = [(f"Word {n}.", f"Wort {n}.") for n in range(600)]
    again = [(held_out[0].upper().replace(".", "!"), "Anders"), ("Other", f"Wort {held_out[1].split()[1]}")]
    found = {split: split_by_english(pairs + again, split) for split in ("train", "val", "test")}
    assert [english for english, _ in found["test"]] == held_out  # the second translation is left out
    assert again[0] not in found["train"] + found["val"]
    assert again[1] not in found["train"]  # its German is that of a held-out sentence
    assert len(found["train"]) + len(found["val"]) + len(found["test"]) == 600
    assert found["val"] == [("Word 113.", "Wort 113."), ("Word 313.", "Wort 313.")]  # as in every recorded run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wmt99", "train", "de", "en"), "wmt99"),
        (("multi30k", "test", "de", "en"), "test_2016_flickr"),
        (("multi30k", "val", "de", "fr"), "'fr'"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_pairs(*arguments)


def test_processes_that_download_at_once_do_not_meet_in_one_file(tmp_path, monkeypatch):
    source = tmp_path / "there"
    source.write_bytes(b"corpus")
    monkeypatch.setattr(corpora.os, "getpid", iter(range(99)).__next__)
    kept = []
    monkeypatch.setattr(Path, "replace", lambda part, path: kept.append(part.name) or part.rename(path))
    for _ in range(2):
        corpora.fetch(tmp_path / "here", source.as_uri(), hashlib.sha256(b"corpus").hexdigest())
        (tmp_path / "here").unlink()
    assert kept == ["here.0.part", "here.1.part"]
