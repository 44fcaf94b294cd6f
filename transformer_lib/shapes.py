"""The notation as types: one alias for each array that crosses a function boundary.

An alias names the axes of an array in order. Within one call the same axis name must mean the same size.
The tests check every call (jaxtyping with beartype); at run time the aliases cost nothing.
`...` stands for any leading axes, such as batch and heads; `#` marks an axis that may be 1 and is then broadcast.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

# Attention: the leading axes are (batch, heads) inside a layer, and none in the smallest examples.
Query = Float[Tensor, "*batch queries d_k"]
Key = Float[Tensor, "*batch keys d_k"]
Value = Float[Tensor, "*batch keys d_v"]
Attended = Float[Tensor, "*batch queries d_v"]
Weights = Float[Tensor, "*batch queries keys"]
Mask = Bool[Tensor, "*#batch #queries #keys"]  # True: this query may look at this key

# Layers and the model. A mask of a whole batch has the axes (batch, 1, queries, keys): the same for every head.
SelfMask = Bool[Tensor, "... #queries queries"]
PastMask = Bool[Tensor, "... #queries past"]
CrossMask = Bool[Tensor, "... #queries keys"]
SourceMask = Bool[Tensor, "... #length length"]
States = Float[Tensor, "batch length d_model"]
QueryStates = Float[Tensor, "batch queries d_model"]
KeyStates = Float[Tensor, "batch keys d_model"]
HeadsKey = Float[Tensor, "batch heads keys d_k"]
HeadsValue = Float[Tensor, "batch heads keys d_v"]
Memory = Float[Tensor, "batch source d_model"]
SourceIds = Int[Tensor, "batch source"]
TargetIds = Int[Tensor, "batch target"]
Logits = Float[Tensor, "batch target vocabulary"]
Scalar = Float[Tensor, ""]
