"""The command line as the tests call it, and what a run leaves in its folder."""

import gzip
import json

import torch

from transformer_lib.weight_files import read_file
from transformer_run import Translator, cli
from transformer_run.checkpoints import save_tensors

SMALL = ["--model", "d_model=16", "d_ff=16", "num_layers=1", "num_heads=2", "d_k=8", "d_v=8"]


def run(command, *arguments):
    """The exit status of this command; on the processor, where it takes a device and none is named."""
    device = [] if command == "export" or "--device" in arguments else ["--device", "cpu"]
    return cli.main([str(a) for a in (command, *arguments, *device)])


def written(folder, name, sentences, ending="\n", encoding="utf-8"):
    path = folder / name
    content = "".join(f"{sentence}{ending}" for sentence in sentences).encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def two_files(folder, pairs, names=("train.fr", "train.cs")):
    """A file for each side of these pairs."""
    return [written(folder, name, side) for name, side in zip(names, zip(*pairs, strict=True), strict=True)]


def files_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def rewrite(path, change=lambda _tensors: None, **changes):
    """Change a checkpoint or a translator as its writer would, with a digest that fits."""
    found = read_file(path)
    tensors = {name: tensor.clone() for name, tensor in (found.weights | found.training).items()}
    change(tensors)
    save_tensors(path, found.described | changes, tensors)


def metrics_of(folder, *without):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in without} for line in lines]


def weights_of(folder, checkpoint="latest"):
    return Translator.load(folder, checkpoint=checkpoint).model.state_dict()


def equal(weights, others):
    return all(torch.equal(weight, others[name]) for name, weight in weights.items())


def raising(error):
    """A function that fails in this way, whatever it is given."""

    def fail(*_, **__):
        raise error

    return fail
