"""The items of the paper that this project explains, implements and proves, typed once.

Each has an id. A function's docstring names it in brackets, a test carries it in `@pytest.mark.paper`, and a
chapter's section stands under the target `(id)=`.
"""

# Id: where it stands in the paper, and what it says.
PAPER_IDS = {
    "eq-1": ("§3.2.1, equation (1)", "scaled dot-product attention"),
    "scale": ("§3.2.1, footnote 4", "why the scores are divided by √d_k"),
    "additive": ("§3.2.1", "additive attention"),
    "mha": ("§3.2.2", "multi-head attention"),
    "three-uses": ("§3.2.3", "the three uses of attention"),
    "causal-mask": ("§3.2.3", "the future is hidden before the softmax"),
    "post-norm": ("§3.1, §5.4", "residual connection, dropout, layer normalisation"),
    "eq-2": ("§3.3, equation (2)", "position-wise feed-forward network"),
    "embed": ("§3.4", "one embedding matrix, scaled by √d_model"),
    "pe": ("§3.5", "sinusoidal positional encoding"),
    "pe-linear": ("§3.5", "a shift is a linear map"),
    "learned-pe": ("§3.5, Table 3 E", "learned positions"),
    "emb-dropout": ("§5.4", "dropout on embedding plus position"),
    "eq-3": ("§5.3, equation (3)", "the learning rate"),
    "adam": ("§5.3", "Adam and its constants"),
    "label-smoothing": ("§5.4", "label smoothing"),
    "batching": ("§5.1", "batches of like lengths, measured in tokens"),
    "decode": ("§6.1", "decoding and its length limit"),
    "ckpt-avg": ("§6.1", "averaging the last checkpoints"),
    "table-3": ("§6.2, Table 3", "the variations and their parameters"),
    "table-1": ("§4, Table 1", "complexity of the layer types"),
    "table-2": ("§6.1, Table 2", "BLEU and training cost"),
    "parsing": ("§6.3", "constituency parsing"),
    "table-4": ("§6.3, Table 4", "parsing scores"),
}

# Ids that lack a function, a test or a chapter, each with its reason.
EXCEPTIONS = {
    "table-2": "results and costs, typed in workshop/lab/paper_tables.py: no function of the library to show",
}
