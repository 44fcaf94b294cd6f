"""`python -m transformer_lib train|translate|evaluate`."""

import sys

from .run.cli import main

sys.exit(main())
