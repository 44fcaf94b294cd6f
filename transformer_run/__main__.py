"""`python -m transformer_run train|translate|evaluate|export`."""

import sys

from .cli import main

sys.exit(main())
