"""What trains, keeps, translates, measures and hands over; the command line is `python -m transformer_run`."""

from .checkpoints import load_checkpoint, save_checkpoint
from .translator import Translator

__all__ = ["Translator", "load_checkpoint", "save_checkpoint"]
