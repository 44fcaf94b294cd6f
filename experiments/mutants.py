"""How many small faults the tests notice, planted one at a time anywhere in the package.

    python experiments/mutants.py              # a seeded sample; Ctrl-C records what there is, and the next run goes on
    python experiments/mutants.py --survivors  # once more those that survived without a reason, after tests were added

A mutant is one small change, drawn from all that workshop/lab/mutants.py can make. It is planted in a copy of the
package, and tests run there until one fails: the quick tests of its own file, then all quick tests of the package, then
the slow ones of its own file. experiments/mutants.toml says which survivors no test can tell from the package, and why.
"""

import argparse
import hashlib
import re
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from workshop.lab.experiment import recorded, runs
from workshop.lab.forked import run_pytest
from workshop.lab.mutants import Mutant, files_of, mutants, sample
from workshop.lab.patches import copied
from workshop.lab.provenance import ROOT, provenance, write_result

PACKAGES, TESTS = [ROOT / "transformer_lib", ROOT / "transformer_run"], ROOT / "tests"
SECONDS = 900.0  # for the tests of one file; a fault that makes them take longer has hung them
ALL_SECONDS = 5400.0  # for all tests of the package
LISTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
JUDGES: dict[str, list[str]] = LISTED["judges"]
REASONS = {(one["file"], one["before"], one["after"]): one["why"] for one in LISTED["equivalent"]}  # of equivalent ones
QUICK, SLOW = "not slow and not deep", "not deep"
# All of the package but the two files that plant faults themselves.
ALL = ["paper", "run", "--deselect=tests/paper/test_defects.py", "--deselect=tests/run/test_mutants.py"]


def judges(file: str) -> list[str]:
    """The test files of a file of the package, its own first."""
    own = [path.relative_to(TESTS).as_posix() for path in TESTS.glob(f"*/test_{Path(file).stem}.py")]
    return [*(name for name in own if not {"interop", "export"} & {*Path(file).parts}), *JUDGES.get(file, [])]


def plant(path: Path, text: str) -> None:
    """Write a file of the copy; compiled code of the same second and size would stand for it."""
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def verdict(copy: Path, tests: list[str], marks: str, seconds: float) -> tuple[str, str]:
    """What the tests make of the package in this folder: killed, timed out or survived; and the test that failed."""
    options = ["-q", "-x", "-m", marks, "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no"]
    options += [f"--timeout={SECONDS / 3:g}", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    options += [name if name.startswith("--") else str(TESTS / name) for name in tests]
    try:
        done = run_pytest(copy, options, seconds)
    except TimeoutError:
        return "timed out", ""
    if done.returncode in (0, 5):  # 5: no test has these marks
        return "survived", ""
    failed = re.search(r"^(?:FAILED|ERROR) (?:.*tests/)?(\S+)", done.output, re.MULTILINE)
    return "timed out" if "Timeout" in done.output else "killed", failed[1] if failed else "the import"


def rings(mutant: Mutant) -> dict[str, tuple[list[str], str, float]]:
    """The tests that meet a mutant, the nearest first: which files, which marks, how many seconds."""
    own = {"own": (judges(mutant.file), QUICK, SECONDS)}
    if told(mutant) in REASONS:
        return own
    return own | {"quick": (ALL, QUICK, ALL_SECONDS), "slow": (judges(mutant.file), SLOW, ALL_SECONDS)}


def judged(copy: Path, mutant: Mutant, rings: dict[str, tuple[list[str], str, float]]) -> dict[str, Any]:
    """Plant a mutant, let one ring of tests after the other run until one notices it, take it out again."""
    path = copy / mutant.file
    healthy = path.read_text("utf-8")
    shown = {"file": mutant.file, "line": mutant.line, "before": mutant.before, "after": mutant.after}
    plant(path, mutant.applied(healthy))
    try:
        for ring, (tests, marks, seconds) in rings.items():
            result, test = verdict(copy, tests, marks, seconds)
            if result != "survived":
                return shown | {"result": result, "by": test, "ring": ring}
    finally:
        plant(path, healthy)
    return shown | {"result": "survived", "by": ""}


def told(found: Mutant | dict[str, Any]) -> tuple[Any, ...]:
    """What names a mutant in the record."""
    known = found._asdict() if isinstance(found, Mutant) else found
    return tuple(known[name] for name in ("file", "before", "after"))


def judge_all(drawn: list[Mutant], copy: Path, progress: Path) -> list[dict[str, Any]]:
    """The verdicts until Ctrl-C; those of a run that was stopped are taken over from its folder."""
    names = [hashlib.sha256(repr((told(mutant), mutant.line)).encode()).hexdigest() for mutant in drawn]
    cases = {name: (copy, mutant, rings(mutant)) for name, mutant in zip(names, drawn, strict=True)}
    try:
        return runs(progress, judged, cases)
    except KeyboardInterrupt:
        found = runs(progress, judged, cases, until=0)
        print(f"stopped with {len(found)} of {len(drawn)}; the same command goes on")
        return found


def found_again(survivor: dict[str, Any]) -> Mutant:
    """A recorded mutant in the file as it is now, at the nearest line.

    Raises:
        SystemExit: if the line has been rewritten since.
    """
    source = (ROOT / survivor["file"]).read_text("utf-8")
    same = [mutant for mutant in mutants(survivor["file"], source) if told(mutant) == told(survivor)]
    if not same:
        raise SystemExit(f"{survivor['file']}:{survivor['line']} has changed: draw a new sample")
    return min(same, key=lambda mutant: abs(mutant.line - survivor["line"]))


def judge_again(copy: Path, mutant: dict[str, Any]) -> dict[str, Any]:
    """The verdict now on a survivor that is not equivalent, or on one whose test is gone; the first stays on record."""
    survived = mutant["result"] == "survived"
    if told(mutant) in REASONS if survived else exists(mutant["by"]):
        return mutant
    now = found_again(mutant)
    return judged(copy, now, rings(now)) | ({"at_first": "survived"} if survived else {})


def exists(test: str) -> bool:
    """Whether the tests still have this one; where no single test noticed, it is an import."""
    file, _, name = test.split("[", maxsplit=1)[0].partition("::")
    return not name or ((TESTS / file).exists() and f"def {name}(" in (TESTS / file).read_text("utf-8"))


def check_healthy(copy: Path, found: list[dict[str, Any]]) -> None:
    """Run every test that noticed a mutant on the package without one.

    Raises:
        SystemExit: if one of them fails there too, so that it proved nothing.
    """
    noticed = sorted({mutant["by"].split("[")[0] for mutant in found if "::" in mutant["by"]})
    result, test = verdict(copy, noticed, SLOW, ALL_SECONDS)
    if result != "survived":
        raise SystemExit(f"{test} fails without a mutant too")


def record(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The mutants, with the reason beside each equivalent one, and how many ended how."""
    for mutant in found:
        if mutant["result"] == "survived" and told(mutant) in REASONS:
            mutant["equivalent"] = REASONS[told(mutant)]
    first = [mutant for mutant in found if mutant.get("at_first", mutant["result"]) != "survived"]
    return {
        "planted": len(found),
        "equivalent": sum("equivalent" in mutant for mutant in found),
        "noticed_by_own": sum(mutant.get("ring") == "own" for mutant in first),
        "noticed_by_quick": sum(mutant.get("ring") in ("own", "quick") for mutant in first),
        "noticed_at_first": len(first),
        "noticed": sum(mutant["result"] != "survived" for mutant in found),
        "mutants": sorted(found, key=lambda mutant: (mutant["file"], mutant["line"], mutant["after"])),
    }


def main() -> None:
    """Judge the sample, or the survivors of the recorded one, and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--number", type=int, default=160, help="mutants, about (default: 160)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--survivors", action="store_true", help="judge the recorded survivors once more")
    args = parser.parse_args()
    started, progress = time.monotonic(), ROOT / "checkpoints" / f"mutants-{args.seed}-{args.number}"
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        copied(copy, without=["__pycache__"])
        if args.survivors:
            old = recorded("mutants")
            found = [judge_again(copy, mutant) for mutant in old["mutants"]]
            args.seed, args.number, seconds = old["seed"], old["drawn"], old["seconds"]
        else:
            found, seconds = judge_all(sample(files_of(*PACKAGES), ROOT, args.number, args.seed), copy, progress), 0.0
        check_healthy(copy, found)
    seconds += time.monotonic() - started
    write_result("mutants", provenance(args.seed, seconds) | {"drawn": args.number} | record(found))


if __name__ == "__main__":
    main()
