"""What crosses the wall between a submission and its checks: plain copies of values, and calls.

Both sides speak it over a socket, one JSON text after the other. A value arrives as numbers, text, lists, arrays or
tensors of exactly these types, whatever class it had. A function stays where it is; the other side calls it. Modules of
a network go to the student pickled, since they come from the grader; from the student come their parameters alone.
"""

import base64
import builtins
import contextlib
import dataclasses
import decimal
import itertools
import json
import numbers
import pickle
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

MESSAGE_BYTES = 64 << 20
ARRAY_BYTES = 16 << 20
ITEMS = 1_000_000  # taken from an iterator
LETTERS = 2000  # of an error's message
CONFIGURATIONS = ("TransformerConfig", "TrainingConfig")


def kept(value: Any) -> Any:
    """An answer of which every check sees the same: what an iterator gives, which one reading uses up, as a list."""
    if isinstance(value, Iterator):
        return [kept(one) for one in itertools.islice(value, ITEMS)]
    if type(value) is dict:
        return {key: kept(one) for key, one in value.items()}
    return type(value)(map(kept, value)) if type(value) in (list, tuple) else value


class Stopped(BaseException):
    """Code went on for longer than its time; no `except Exception` keeps it."""


class Gone(BaseException):
    """The other side has ended, or sent an invalid message."""


class Unknown:
    """A value of a type that does not cross: its type's name and how it prints."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise Stopped after this time and each second after it, because a bare `except` may catch it."""

    def ring(*_: object) -> None:
        raise Stopped

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def used() -> float:
    """Seconds of processor time that this process and its children that ended have used."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def _torch() -> Any:
    return sys.modules.get("torch")


def _parameter(module: Any, name: str) -> tuple[Any, str, Any]:
    """The module that holds a parameter, the name there, and what stands under it now."""
    path, _, last = name.rpartition(".")
    holder = module.get_submodule(path)
    return holder, last, getattr(holder, last, None)


def _names(module: Any) -> list[str]:
    return [name for name, _ in module.named_parameters(remove_duplicate=False)]


class Wire:
    """One end. `is_grader` decides what may be sent and what is believed."""

    def __init__(self, connection: Connection, is_grader: bool, handlers: dict[str, Callable[..., Any]] | None = None):
        self.connection, self.is_grader = connection, is_grader
        self.handlers = {"call": self._serve_call, "backward": self._serve_backward, **(handlers or {})}
        self.seconds: Callable[[], float] = lambda: 1e6  # what is left for a call
        self.forget()

    def forget(self) -> None:
        """Drop the functions that were offered, and the graphs of earlier calls."""
        self.offered: list[Any] = []
        self.graphs: list[tuple[list[Any], list[Any]]] = []
        self.modules: list[Any] = []  # of the call in progress
        self.inputs: list[Any] = []  # of the call in progress: the tensors that want a gradient
        self.outputs: list[Any] | None = None

    # ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        try:
            self.connection.send_bytes(text)
        except OSError:
            raise Gone("the kernel ended while this ran") from None

    def _receive(self) -> dict[str, Any]:
        try:
            message = json.loads(self.connection.recv_bytes(MESSAGE_BYTES))
        except (EOFError, OSError):
            raise Gone("the kernel ended while this ran") from None
        except (ValueError, RecursionError, MemoryError):
            message = None
        if not isinstance(message, dict):
            raise Gone("the kernel sent an invalid message")
        return message

    def ask(self, **message: Any) -> Any:
        """The other side's answer to a message; meanwhile it may call back.

        Raises:
            Exception: what it raised there.
            Gone: if it no longer speaks.
        """
        self._send(message)
        while True:
            answer = self._receive()
            if "raised" in answer:
                raise _error(answer["raised"])
            if "returned" in answer:
                return answer["returned"]
            self.serve(answer)

    def serve(self, message: dict[str, Any]) -> None:
        """Do what one message asks, and answer."""
        try:
            answer = {"returned": self.handlers[message.pop("do")](**message)}
            self._send(answer)
        except Gone:
            raise
        except BaseException as error:
            if self.is_grader and not isinstance(error, Exception):
                raise
            self._send({"raised": _told(error)})

    def serve_forever(self) -> None:
        while True:
            try:
                self.serve(self._receive())
            except Stopped:  # rang while the answer was on its way
                continue

    # ── Calls ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, number: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the other side; lists and modules that it changed in place are changed here as well."""
        torch, outer = _torch(), (self.modules, self.inputs)
        grads = bool(torch) and torch.is_grad_enabled()
        inputs = [x for x in arguments if grads and isinstance(x, torch.Tensor) and x.requires_grad]
        self.modules, self.inputs = [], inputs
        try:
            sent = [self.encode(list(arguments)), self.encode(named)]
            answer = self.ask(do="call", number=number, given=sent, grads=grads, seconds=self.seconds())
            if self.is_grader:
                self._take_back(answer["modules"])
                for mine, theirs in zip(arguments, answer["lists"], strict=True):
                    if isinstance(mine, list):
                        mine[:] = self.decode(theirs)
            return self.decode(answer["value"], answer["graph"])
        finally:
            self.modules, self.inputs = outer

    def _serve_call(self, number: int, given: list[Any], grads: bool, seconds: float) -> dict[str, Any]:
        torch, outer = _torch(), (self.modules, self.inputs)
        self.modules, self.inputs = [], []
        modules = self.modules
        try:
            arguments, named = (self.decode(part) for part in given)
            before = [_names(module) for module in modules]
            inputs = [x for x in arguments if torch and isinstance(x, torch.Tensor) and x.requires_grad]
            # Copies, as the checks give them: what is changed in place must not be a leaf of the graph.
            arguments = [x.clone() if any(x is one for one in inputs) else x for x in arguments]
            guard = torch.set_grad_enabled(grads) if torch else contextlib.nullcontext()
            with guard, contextlib.nullcontext() if self.is_grader else alarm(seconds):
                value = self.offered[number](*arguments, **named)
                self.outputs = outputs = [] if inputs else None
                self.graphs.append((outputs if outputs is not None else [], inputs))
                return {
                    "value": self.encode(value),
                    "graph": len(self.graphs) - 1,
                    "lists": [self.encode(x) if type(x) is list else None for x in arguments],
                    "modules": self._states(modules, before),
                }
        finally:
            self.modules, self.inputs, self.outputs = *outer, None

    def _serve_backward(self, graph: int, output: int, gradient: Any) -> Any:
        outputs, inputs = self.graphs[graph]
        found = _torch().autograd.grad(
            outputs[output], inputs, self.decode(gradient), retain_graph=True, allow_unused=True
        )
        return self.encode(list(found))

    def _through(self, value: Any, graph: int, output: int) -> Any:
        """A tensor that came out of a call, joined to the tensors that went in."""
        torch, wire = _torch(), self

        class Through(torch.autograd.Function):  # type: ignore[name-defined]
            @staticmethod
            def forward(ctx: Any, found: Any, *_inputs: Any) -> Any:
                return found.clone()

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                sent = wire.encode(gradients[0])
                found = wire.decode(wire.ask(do="backward", graph=graph, output=output, gradient=sent))
                return None, *found

        return Through.apply(value, *self.inputs)

    # ── Modules ───────────────────────────────────────────────────────────────────────────────────────────────

    def _states(self, modules: list[Any], names: list[list[str]]) -> list[list[Any]]:
        """What stands under each parameter's name now: the same object, the same memory, which numbers."""
        seen: dict[int, int] = {}
        torch, states = _torch(), []
        for module, own in zip(modules, names, strict=True):
            states.append([])
            for name in own:
                *_, value = _parameter(module, name)
                address = value.data_ptr() if isinstance(value, torch.Tensor) else 0
                states[-1].append([seen.setdefault(id(value), len(seen)), address, self.encode(value)])
        return states

    def _take_back(self, states: list[Any]) -> None:
        """Give the modules of this call the parameters that they have on the other side."""
        torch = _torch()
        same: dict[int, Any] = {}
        memory: dict[int, Any] = {}
        for module, entries in zip(self.modules, states, strict=True):
            for name, (thing, address, encoded) in zip(_names(module), entries, strict=True):
                holder, last, old = _parameter(module, name)
                value = self.decode(encoded)
                if thing not in same and isinstance(value, torch.Tensor):
                    data = memory.setdefault(address, value if not torch.equal(old, value) else old.data)
                    old.data = data
                    value = old
                value = same.setdefault(thing, value)
                if value is not old:
                    holder._parameters.pop(last, None)
                    setattr(holder, last, value)

    # ── Values ────────────────────────────────────────────────────────────────────────────────────────────────

    def encode(self, value: Any) -> Any:
        """A value as JSON: a number or text as it is, all else as a list that begins with its kind.

        Raises:
            ValueError: if it holds too many numbers to be checked.
        """
        if value is None or isinstance(value, int | float | str):
            return value  # JSON has what it is, whatever class it belongs to
        for form in (self._network, self._numbers, self._collection):
            if (encoded := form(value)) is not None:
                return encoded[0]
        if callable(value):
            self.offered.append(value)
            return ["function", len(self.offered) - 1]
        return ["other", type(value).__name__, repr(value)[:LETTERS]]

    def _network(self, value: Any) -> list[Any] | None:
        torch = _torch()
        if torch and isinstance(value, torch.Tensor):
            return [self._tensor(value)]
        if torch and isinstance(value, torch.nn.Module) and self.is_grader:
            self.modules.append(value)
            return [["module", base64.b64encode(pickle.dumps(value)).decode()]]
        if dataclasses.is_dataclass(value) and type(value).__name__ in CONFIGURATIONS:
            fields = {one.name: self.encode(getattr(value, one.name)) for one in dataclasses.fields(value)}
            return [["configuration", type(value).__name__, fields]]
        return None

    def _numbers(self, value: Any) -> list[Any] | None:
        np = sys.modules.get("numpy")
        if np and isinstance(value, np.generic | np.ndarray):
            if value.shape and value.dtype.kind in "biufc":
                return [["array", value.dtype.str, value.shape, _packed(np.ascontiguousarray(value))]]
            return [self.encode(value.tolist())]
        if isinstance(value, complex):
            return [["complex", value.real, value.imag]]
        return [float(value)] if isinstance(value, numbers.Real | decimal.Decimal) else None

    def _collection(self, value: Any) -> list[Any] | None:
        if isinstance(value, Mapping):
            return [["dict", [[self.encode(key), self.encode(item)] for key, item in value.items()]]]
        if callable(value) or not isinstance(value, Iterable):
            return None
        kind = "tuple" if isinstance(value, tuple) else "set" if isinstance(value, set | frozenset) else "list"
        return [[kind, [self.encode(item) for item in itertools.islice(value, ITEMS)]]]

    def _tensor(self, value: Any) -> Any:
        torch = _torch()
        place = None
        if self.outputs is not None and value.requires_grad:
            self.outputs.append(value)
            place = len(self.outputs) - 1
        wants = any(value is one for one in self.inputs)
        value = value.detach().to_dense().cpu().contiguous()
        data = _packed(value.reshape(-1).view(torch.uint8).numpy())
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape), data, place, wants]

    def decode(self, encoded: Any, graph: int = -1) -> Any:
        """The value of what `encode` gave, built of plain types.

        Raises:
            ValueError, TypeError: if `encode` cannot have given it.
        """
        if not isinstance(encoded, list):
            return self._number(encoded)
        forms: dict[str, Callable[..., Any]] = {
            "list": lambda items: [self.decode(item, graph) for item in items],
            "tuple": lambda items: tuple(self.decode(item, graph) for item in items),
            "set": lambda items: {self.decode(item) for item in items},
            "dict": lambda items: {self.decode(key): self.decode(item, graph) for key, item in items},
            "function": lambda number: lambda *given, **named: self._call(int(number), given, named),
            "array": self._array_of,
            "tensor": lambda *parts: self._tensor_of(*parts, graph=graph),
            "complex": complex,
            "configuration": self._configuration_of,
            "other": lambda name, text: type(name if name.isidentifier() else "object", (Unknown,), {})(str(text)),
        }
        if not self.is_grader:
            forms["module"] = self._module_of
        kind, *parts = encoded
        if kind not in forms:
            raise ValueError(f"nothing is sent as {str(kind)[:20]!r}")
        return forms[kind](*parts)

    def _module_of(self, pickled: str) -> Any:
        self.modules.append(pickle.loads(base64.b64decode(pickled)))  # from the grader
        return self.modules[-1]

    def _configuration_of(self, name: str, fields: dict[str, Any]) -> Any:
        from transformer_lib import config

        if name not in CONFIGURATIONS:
            raise ValueError(f"{name} is no configuration")
        return getattr(config, name)(**{key: self.decode(item) for key, item in fields.items()})

    def _array_of(self, dtype: str, shape: list[int], data: str) -> Any:
        import numpy as np

        if (kind := np.dtype(str(dtype))).kind not in "biufc":
            raise ValueError(f"an array of {kind} does not cross")
        return self._number(np.frombuffer(base64.b64decode(data), kind).reshape(shape).copy())

    def _number(self, value: Any) -> Any:
        """The value; a grader takes no NaN, of which no comparison says that it is wrong."""
        if self.is_grader and not isinstance(value, str) and not _all(value == value):  # noqa: PLR0124
            raise ValueError("your answer holds NaN, which is no number")
        return value

    def _tensor_of(self, dtype: str, shape: list[int], data: str, place: Any, wants: bool, graph: int) -> Any:
        import torch

        kind, raw = getattr(torch, dtype), bytearray(base64.b64decode(data))
        value = torch.frombuffer(raw, dtype=kind).reshape(shape) if raw else torch.empty(shape, dtype=kind)
        self._number(value)
        if place is not None and self.is_grader and self.inputs:
            return self._through(value, graph, int(place))
        return value.requires_grad_() if wants and not self.is_grader else value


def _all(equal: Any) -> bool:
    return equal if isinstance(equal, bool) else bool(equal.all())


def _packed(array: Any) -> str:
    if array.nbytes > ARRAY_BYTES:
        raise ValueError(
            f"an answer of {array.nbytes >> 20} MB is too large to be checked: {ARRAY_BYTES >> 20} MB are not"
        )
    return base64.b64encode(array.tobytes()).decode()


def _told(error: BaseException) -> list[Any]:
    """An error as JSON: the names of its classes, its message, the student's line in which it came up."""
    try:
        message = str(error)[:LETTERS]
    except Exception:  # a student's exception may be anything
        message = ""
    return [[kind.__name__ for kind in type(error).__mro__], message, _own_line(error)]


def _own_line(error: BaseException) -> str:
    import linecache

    found, trace = "", error.__traceback__
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith("<ipython-input"):
            found = linecache.getline(file, trace.tb_lineno).strip()[:LETTERS] or found
        trace = trace.tb_next
    return found


def _error(told: Any) -> BaseException:
    """What the other side raised, as a class of the same name below the same built-in one."""
    try:
        names, message, line = [str(name) for name in told[0]][:LETTERS] or ["Exception"], *map(str, told[1:3])
    except (TypeError, LookupError, ValueError):
        return Gone("the kernel sent an invalid message")
    if names[0] == Stopped.__name__:
        return Stopped("there")
    known = (getattr(builtins, name, None) for name in names)
    base = next((kind for kind in known if isinstance(kind, type) and issubclass(kind, Exception)), Exception)
    base = Exception if issubclass(base, UnicodeError | OSError) else base  # these want more than a message
    kind: Any = type(names[0] if names[0].isidentifier() else "Exception", (base,), {"line": line})
    return kind(message)
