"""Make the students' version of every assignment in a folder; called by make_assignments.py."""

import sys
from pathlib import Path

from workshop.course.grading.course import release


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    for source in sorted((root / "source").iterdir()):
        release(root, source.name, with_database=False)
        print(f"{source.name}: the students' version", flush=True)


if __name__ == "__main__":
    main()
