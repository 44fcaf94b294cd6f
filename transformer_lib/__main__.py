"""`python -m transformer_lib train|translate|evaluate`."""

import sys

from .cli import main

sys.exit(main())
