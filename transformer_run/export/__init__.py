"""A translator for other programs: CTranslate2, transformers, ONNX Runtime and the book's page."""

from .ctranslate2 import Engine, export_ctranslate2
from .marian import export_marian

__all__ = ["Engine", "export_ctranslate2", "export_marian"]
