"""What does already what an exercise asks for: while a student's answer runs, it refuses to.

A function of the library gets other code, so that every name of it refuses. PyTorch's are known by what they compute: a
mode sees each operator that Python calls, from whichever module, and refuses those of the same kind. (A dispatch mode
stands too low for that: attention, the cross-entropy and a recurrence come to it in pieces.)
"""

import contextlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

MESSAGE = "the exercise asks for your own lines, and {} does already what they should do"
# The name that an exercise gives → the operators that compute it, or contain what computes it.
KINDS = {
    "scaled_dot_product_attention": "attention|transformer_encoder_layer",
    "layer_norm": "(layer|rms|group|batch|instance)_norm",
    "rms_norm": "(layer|rms|group|batch|instance)_norm",
    "cross_entropy": "cross_entropy|nll_loss|kl_div",
    "RNN": "rnn_|gru|lstm",
}
# One of PyTorch's that an exercise gives → what computes the same in the library, each under its first name.
LIBRARY = {
    "torch.nn.functional.scaled_dot_product_attention": (
        "transformer_lib.scaled_dot_product_attention",
        "transformer_lib.reference.attention",
        "transformer_lib.reference.self_attention",
    ),
    "torch.nn.functional.layer_norm": ("transformer_lib.reference.layer_norm",),
    "torch.nn.functional.cross_entropy": (
        "transformer_lib.label_smoothing.token_losses",
        "transformer_lib.fast.SmoothedCrossEntropy",
        "transformer_lib.reference.label_smoothing_loss",
    ),
}


def function_at(path: str) -> Any:
    """The function at a path such as `transformer_lib.reference.attention`; of a class its `forward`."""
    holder, _, name = path.rpartition(".")
    found = getattr(pkgutil.resolve_name(holder), name)
    return inspect.unwrap(found.forward if isinstance(found, type) else found)


def _refusing(path: str) -> FunctionType:
    """A function that needs no other name, so that its code can stand in any module."""
    space: dict[str, Any] = {}
    exec(f"def refuse(*_, **__):\n raise RuntimeError({MESSAGE.format(path)!r})", space)
    return space["refuse"]


def _operators(kinds: str) -> contextlib.AbstractContextManager[Any]:
    """Where PyTorch's operators of these names refuse, whoever calls them."""
    from torch.overrides import TorchFunctionMode  # not where an exercise does without PyTorch

    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if re.search(kinds, name := getattr(func, "__name__", "")):
                raise RuntimeError(MESSAGE.format(name))
            return func(*args, **(kwargs or {}))

    return Refusing()


@contextlib.contextmanager
def refused(paths: Sequence[str]) -> Iterator[None]:
    """Let these functions refuse, and take it back.

    Raises:
        AttributeError, ImportError, KeyError: for a path that leads nowhere, or to no kind of operator.
    """
    with contextlib.ExitStack() as undo:
        kinds = [KINDS[path.rpartition(".")[2]] for path in paths if path.startswith("torch.")]
        ours = (LIBRARY.get(path, ()) if path.startswith("torch.") else (path,) for path in paths)
        for path in dict.fromkeys(itertools.chain.from_iterable(ours)):
            function = function_at(path)
            undo.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = _refusing(path).__code__
        if kinds:
            undo.enter_context(_operators("|".join(kinds)))
        yield
