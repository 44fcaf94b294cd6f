"""The paper's Tables 1, 2 and 4, typed once. Table 3 is `transformer_lib.TABLE_3`.

An empty cell of the paper is None.
"""

from typing import NamedTuple


class Table1Row(NamedTuple):
    """How a layer type grows with n (length), d (width), k (kernel) and r (neighbourhood): section 4."""

    operations_per_layer: str
    sequential_operations: str
    maximum_path_length: str


TABLE_1 = {
    "self-attention": Table1Row("n^2 d", "1", "1"),
    "recurrent": Table1Row("n d^2", "n", "n"),
    "convolutional": Table1Row("k n d^2", "1", "log_k n"),  # dilated; n / k if the kernels only touch
    "self-attention (restricted)": Table1Row("r n d", "1", "n / r"),
}


class Table2Row(NamedTuple):
    """BLEU on newstest2014 and the cost of training, in floating point operations: section 6.1."""

    bleu_en_de: float | None = None
    bleu_en_fr: float | None = None
    flops_en_de: float | None = None
    flops_en_fr: float | None = None
    ensemble: bool = False


TABLE_2 = {
    "ByteNet": Table2Row(23.75),
    "Deep-Att + PosUnk": Table2Row(None, 39.2, None, 1.0e20),
    "GNMT + RL": Table2Row(24.6, 39.92, 2.3e19, 1.4e20),
    "ConvS2S": Table2Row(25.16, 40.46, 9.6e18, 1.5e20),
    "MoE": Table2Row(26.03, 40.56, 2.0e19, 1.2e20),
    "Deep-Att + PosUnk ensemble": Table2Row(None, 40.4, None, 8.0e20, ensemble=True),
    "GNMT + RL ensemble": Table2Row(26.30, 41.16, 1.8e20, 1.1e21, ensemble=True),
    "ConvS2S ensemble": Table2Row(26.36, 41.29, 7.7e19, 1.2e21, ensemble=True),
    "Transformer (base model)": Table2Row(27.3, 38.1, 3.3e18),
    "Transformer (big)": Table2Row(28.4, 41.0, 2.3e19),  # En-Fr 41.8 in the later arXiv revision
}


class TrainingRun(NamedTuple):
    """What section 5.2 says of a run on one machine with 8 P100 GPUs."""

    steps: int
    seconds_per_step: float
    hours: float


TRAINING_RUNS = {
    "Transformer (base model)": TrainingRun(100_000, 0.4, 12.0),
    "Transformer (big)": TrainingRun(300_000, 1.0, 3.5 * 24),
}
GPUS = 8
# Sustained single-precision operations per second, the paper's footnote 5.
FLOPS_PER_SECOND = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}


class Table4Row(NamedTuple):
    """F1 on section 23 of the Wall Street Journal: section 6.3."""

    training: str  # "WSJ only", "semi-supervised", "multi-task", "generative"
    f1: float


TABLE_4 = {
    "Vinyals & Kaiser et al. (2014)": [Table4Row("WSJ only", 88.3), Table4Row("semi-supervised", 92.1)],
    "Petrov et al. (2006)": [Table4Row("WSJ only", 90.4)],
    "Zhu et al. (2013)": [Table4Row("WSJ only", 90.4), Table4Row("semi-supervised", 91.3)],
    "Dyer et al. (2016)": [Table4Row("WSJ only", 91.7), Table4Row("generative", 93.3)],
    "Transformer (4 layers)": [Table4Row("WSJ only", 91.3), Table4Row("semi-supervised", 92.7)],
    "Huang & Harper (2009)": [Table4Row("semi-supervised", 91.3)],
    "McClosky et al. (2006)": [Table4Row("semi-supervised", 92.1)],
    "Luong et al. (2015)": [Table4Row("multi-task", 93.0)],
}
