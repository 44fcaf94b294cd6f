"""Of the paper's Tables 1, 2 and 4 what is compared with something here. Table 3 is `transformer_lib.TABLE_3`."""

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


# Section 5.2 and Table 2: hours on a machine with 8 P100 GPUs, and floating point operations, English to German.
TRAINING_COSTS = {"Transformer (base model)": (12.0, 3.3e18), "Transformer (big)": (3.5 * 24, 2.3e19)}
GPUS = 8
FLOPS_PER_SECOND = 9.5e12  # of a P100, sustained, in single precision: the paper's footnote 5


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
