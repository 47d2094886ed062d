"""Runs TOSA conformance tests through the daemon and judges the results with the official verifier.

Called by scripts/conformance, which builds the programs and makes the Python environment.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from conformance.tosa_profiles import TosaProfiles

import device
import directed
import official
import report
from cases import Case
from journal import Journal, Result, fingerprint
from tools import VERSIONS, extensions, operators


@dataclass
class Choice:
    """Which tests: all of the official suite, or `per_kind` of each kind."""

    version: str
    per_kind: int | None
    profiles: list[str]
    extensions: list[str]
    seed: int

    def takes(self, case):
        return TosaProfiles.isSupported(self.profiles, self.extensions, *case.needs())

    def folder(self):
        """A name for the tests of this choice: they are made once and kept."""
        chosen = [name.removeprefix("tosa-") for name in (*self.profiles, *self.extensions)]
        everything = len(chosen) == len(TosaProfiles.profiles()) + len(extensions(self.version))
        count = "all" if self.per_kind is None else str(self.per_kind)
        return f"{self.version}-{count}-seed{self.seed}-{'every-extension' if everything else '-'.join(chosen)}"


def make(folder, operator, choice):
    """Makes the tests of one operator, unless an earlier run has: a stamp marks what is finished."""
    if (folder / "made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (directed if choice.per_kind else official).make(folder, operator, choice)
    (folder / "made").touch()


def make_all(folder, names, choice, jobs):
    progress = report.Progress("operators with tests made", len(names))
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        making = [pool.submit(make, folder / name, name, choice) for name in names]
        for made in concurrent.futures.as_completed(making):
            made.result()
            progress.step()


def find(folder, known):
    """The tests below a folder, of these operators. The longest name of an operator that a test's begins with is its operator: greater_equal, not greater."""
    cases = []
    for description in sorted(folder.rglob("desc.json")):
        test = description.parent
        fitting = [name for name in known if test.name.startswith(f"{name}_")]
        cases.append(Case(test, max(fitting, key=len, default=test.name.split("_")[0])))
    return cases


def make_references(pool, cases):
    """(cases that the reference model can judge, names of the others)"""
    progress = report.Progress("results of the reference model", len(cases))
    good, left_out = [], []
    for case, judged in zip(cases, pool.map(Case.make_reference, cases)):
        good.append(case) if judged else left_out.append(case.folder.name)
        progress.step()
    return good, left_out


def run(pool, accelctl, cases, journal):
    """Runs what the journal lacks, and judges each result as it comes."""
    waiting = [case for case in cases if case.folder.name not in journal.results]
    if len(waiting) < len(cases):
        print(f"going on after {len(cases) - len(waiting)} tests of the run that was stopped", file=sys.stderr)
    progress = report.Progress("tests", len(waiting))

    def judge(case, answer):
        column, why = case.judge(answer)
        journal.add(Result(case.folder.name, case.operator, case.kind, column, why, answer["times"]))

    def note():
        bad = sum(result.column not in report.GOOD for result in list(journal.results.values()))
        return f", {bad} not passed"

    judging = []
    for case, answer in device.run(accelctl, waiting):
        judging.append(pool.submit(judge, case, answer))
        progress.step(note)
    for judged in judging:
        judged.result()
    return [journal.results[case.folder.name] for case in cases]


def parse():
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    count = parser.add_mutually_exclusive_group()
    count.add_argument("--all", action="store_true", help="the whole official suite")
    count.add_argument("--short", action="store_const", const=1, dest="per_kind", help="one test of each kind")
    count.add_argument("--per-kind", type=int, default=4, help="tests of each kind: operator, types, rounding (default 4)")
    parser.add_argument("--tosa-version", choices=VERSIONS, default=VERSIONS[0], help="of the tests (default %(default)s)")
    parser.add_argument("--op", nargs="+", metavar="NAME", help="these operators only")
    TosaProfiles.addArgumentsToParser(parser)
    parser.add_argument("--seed", type=int, default=42, help="of the generator (default 42, the official one)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the generator, the reference model and the verifier (default: a processor each)")
    parser.add_argument("--directory", type=Path, help="run the tests under this folder instead of making any")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit's XML there too")
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--programs", type=Path, required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    TosaProfiles.parseArguments(arguments)
    arguments.extension = [name for name in arguments.extension if name in extensions(arguments.tosa_version)]
    known = operators(arguments.tosa_version)
    for name in arguments.op or ():
        if name not in known:
            parser.error(f"the suite has no tests of {name}; --op takes names of TOSA operators in lower case: {' '.join(known)}")
    return arguments


def main():
    arguments = parse()
    start = time.monotonic()
    per_kind = None if arguments.all else arguments.per_kind
    choice = Choice(arguments.tosa_version, per_kind, arguments.profile, arguments.extension, arguments.seed)
    known = operators(choice.version)
    base, names = arguments.build / "conformance", arguments.op or known
    if arguments.directory:
        folder = base / "given"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(arguments.directory, folder, copy_function=shutil.copyfile)
    else:
        folder = base / choice.folder()
        make_all(folder, names, choice, arguments.jobs)
    below = [folder] if arguments.directory else [folder / name for name in names]
    cases = [case for part in below for case in find(part, known) if choice.takes(case)]
    accelctl = arguments.programs / "accelctl"
    programs = [accelctl, arguments.programs / "vhost-device-accel"]

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        cases, left_out = make_references(pool, cases)
        journal = Journal(folder / "journal", fingerprint(programs, cases))
        results = run(pool, accelctl, cases, journal)
    journal.close()

    seconds = time.monotonic() - start
    facts = (results, device.name(accelctl), seconds, left_out)
    if arguments.json:
        print(json.dumps(report.as_json(*facts), indent=1))
    else:
        report.as_text(*facts)
    if arguments.junit:
        report.write_junit(arguments.junit, results, seconds)
    sys.exit(0 if results and all(result.column in report.GOOD for result in results) else 1)


if __name__ == "__main__":
    main()
