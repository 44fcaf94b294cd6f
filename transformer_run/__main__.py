"""`python -m transformer_run train|translate|evaluate`."""

import sys

from .cli import main

sys.exit(main())
