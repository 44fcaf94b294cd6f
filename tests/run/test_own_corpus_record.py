"""The recorded translator from French to Czech: how it is made, and that its translations have its score."""

import gzip
import json
import re

import pytest

from experiments import own_corpus
from transformer_lib.data.corpora import data_folder
from transformer_lib.data.number_words import number_pairs
from transformer_lib.data.text_files import TextPairs
from transformer_lib.evaluation import bleu
from workshop.lab.provenance import RESULTS

RECORD = RESULTS / f"{own_corpus.NAME}.json"
SMALL = (
    "--data train.fr.gz train.cs.gz --validation val.fr.gz val.cs.gz --source fr --target cs --clean --device cpu "
    "--vocabulary-size 60 --model num_layers=1 d_model=16 d_ff=16 num_heads=2 d_k=8 d_v=8 "
    "--training num_steps=2 batch_tokens=300 warmup_steps=10"
)


@pytest.mark.slow
def test_six_files_become_a_translator_and_a_second_call_trains_no_step(tmp_path):
    files, pairs = tmp_path / "my files", number_pairs("val")
    files.mkdir()
    for split, some in {"train": pairs[:300], "val": pairs[300:320], "test_2016_flickr": pairs[320:330]}.items():
        for language, side in zip(("fr", "cs"), zip(*some, strict=True), strict=True):
            (files / f"{split}.{language}.gz").write_bytes(gzip.compress("\n".join(side).encode()))
    made = own_corpus.make_translator(tmp_path / "run", files, SMALL)
    assert made["pairs"] == {"training": 300, "validation": 20, "left out": {}}
    assert made["evaluated"][0].startswith("BLEU = ")
    assert made["evaluated"][0].endswith("fr to cs, beam 4, alpha 0.6")
    assert list(made["translations"]) == own_corpus.SENTENCES
    assert len((tmp_path / "run" / "hypotheses.txt").read_text("utf-8").splitlines()) == 10
    again = own_corpus.make_translator(tmp_path / "run", files, SMALL)
    assert {**again, "seconds_in_steps": 0} == {**made, "seconds_in_steps": 0}


def test_the_recorded_translations_have_the_recorded_score():
    record = json.loads(RECORD.read_text("utf-8"))
    assert own_corpus.TRAIN in record["commands"][0]
    assert own_corpus.EVALUATE in record["commands"][1]
    files = [data_folder() / "multi30k" / f"test_2016_flickr.{language}.gz" for language in ("fr", "cs")]
    if not all(file.exists() for file in files):
        pytest.skip("needs the French and Czech files of Multi30k")
    said = (RESULTS / own_corpus.NAME / "hypotheses.cs.txt").read_text("utf-8").splitlines()
    found = bleu(said, [target for _, target in TextPairs(files)])
    score, penalty = re.match(r"BLEU = ([\d.]+) .*brevity penalty ([\d.]+)", " ".join(record["evaluated"])).groups()
    assert (f"{found.score:.2f}", f"{found.brevity_penalty:.3f}") == (score, penalty)
    assert record["evaluated"][2] == f"signature = {found.signature}"
