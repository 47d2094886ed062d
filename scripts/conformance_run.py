"""Runs TOSA conformance tests through the daemon and judges the results with the official verifier.

Called by scripts/conformance, which builds the programs and makes the Python environment.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# The native programs themselves: the console scripts of the same names start a Python for each call.
TOOLS = Path(sysconfig.get_path("purelib")) / "bin"
REFERENCE_VALID, REFERENCE_REFUSED = 0, 2
RAN, UNPREDICTABLE, REFUSED = 0, 1, 2

# TRANSPOSE_CONV2D runs too, but is not among them: its generator marks impossible outputs with unknown dimensions, which are
# refused as unsupported before the rule that the test is about.
OPERATORS = """
    abs add argmax avg_pool2d cast ceil clamp concat const conv2d conv3d cos depthwise_conv2d equal erf exp fft2d floor gather greater greater_equal
    identity log logical_and logical_not logical_or logical_xor matmul max_pool2d maximum minimum mul negate pad pow reciprocal
    reduce_all reduce_any reduce_max reduce_min reduce_product reduce_sum rescale reshape resize reverse rfft2d rsqrt scatter select sigmoid sin slice
    sub table tanh tile transpose
""".split()
# Extensions of TOSA for which a refusal is a failure, as for tests that need none. Tests of others may be refused.
PROMISED = {f"tosa-ext-{name}" for name in "bf16 doubleround fft fp8e4m3 fp8e5m2 inexactround int16 int4 variable".split()}
TYPE = re.compile(r"(?:acc|out)?((?:b|i4|i8|i16|i32|i48|f16|f32|bf16|f8e4m3|f8e5m2)(?:x(?:b|i4|i8|i16|i32|i48|f16|f32|bf16|f8e4m3|f8e5m2))*)")


class Case:
    """One folder with desc.json, test.tosa and inputs. The type is read from the name, which the generator makes of it."""

    def __init__(self, folder):
        self.folder = folder
        self.description = json.loads((folder / "desc.json").read_text())
        self.negative = self.description["expected_failure"]
        words = re.sub(r"ERRORIF_[A-Za-z0-9]+_", "", folder.name).split("_")
        types = [found[1] for found in map(TYPE.fullmatch, words) if found]
        self.type = " ".join(dict.fromkeys(types)) or "-"
        extensions = self.description.get("test_requirements", {}).get("extensions_required")
        self.promised = set(extensions or ()) <= PROMISED
        self.operator = max((op for op in OPERATORS if folder.name.startswith(op + "_")), key=len, default=folder.name.split("_")[0])

    def reference(self, index):
        return self.folder / f"fp64-{index}.npy"

    def bounds(self, index):
        return self.folder / f"bounds_fp64-{index}.npy"

    def make_reference(self):
        """What the reference model says in double precision, kept beside the test. False when it cannot judge the test."""
        verdict = self.folder / "reference.code"
        if not verdict.exists():
            names = [self.reference(index).name for index in range(len(self.description["ofm_name"]))]
            command = [TOOLS / "tosa_reference_model", "--test_desc", self.folder / "desc.json", "--operator_fbs", TOOLS / "tosa.fbs"]
            command += ["--tosa_level", "EIGHTK", "-p", "1", "--ofm_file", ",".join(names), "--output_dir", self.folder]
            verdict.write_text(str(subprocess.run(command, capture_output=True).returncode))
        return int(verdict.read_text()) == (REFERENCE_REFUSED if self.negative else REFERENCE_VALID)

    def verify(self):
        """The verifier's complaint about the first output that does not comply, or nothing."""
        for index, (name, file) in enumerate(zip(self.description["ofm_name"], self.description["ofm_file"])):
            command = [TOOLS / "tosa_verify", "--test_desc", self.folder / "desc.json", "--ofm_name", name]
            command += ["--imp_result_file", self.folder / file, "--ref_result_file", self.reference(index)]
            if self.bounds(index).exists():
                command += ["--bnd_result_file", self.bounds(index)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                return " ".join((done.stdout + done.stderr).split())[-300:] or f"tosa_verify ended with {done.returncode}"
        return None

    def judge(self, code, message):
        """(column of the table, what is wrong)"""
        if self.negative:
            return ("refused rightly", None) if code == REFUSED else ("failed", f"must be refused, but ended with {code}: {message}")
        if code == RAN:
            complaint = self.verify()
            return ("failed", complaint) if complaint else ("passed", None)
        if code in (REFUSED, 3) and not self.promised:
            return "not offered", None
        return "failed", f"ended with {code}: {message}"


def generate(folder, per_kind, operators):
    """The tests of each operator, made once: a stamp marks what is finished."""
    import tosa_cases

    missing = [operator for operator in operators if not (folder / operator / "made").exists()]
    for operator in missing:
        shutil.rmtree(folder / operator, ignore_errors=True)
    if missing:
        print(f"making tests of {len(missing)} operators in {folder}", file=sys.stderr)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        making = {pool.submit(tosa_cases.make, folder / operator, operator, per_kind): operator for operator in missing}
        for made in concurrent.futures.as_completed(making):
            if not made.result():
                raise SystemExit(f"the generator knows no test of {making[made]}; --op takes names of TOSA operators in lower case.")
            (folder / making[made] / "made").touch()


def run_on_device(accelctl, cases):
    """Exit code and message of each case, from one accelctl process."""
    files = [str(case.folder / "desc.json") for case in cases]
    done = subprocess.run([*accelctl, "sut", "--batch", "--json"], input="\n".join(files), capture_output=True, text=True)
    answers = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        answers[answer["desc"]] = (answer["code"], answer.get("message", ""))
    lost = (3, f"accelctl gave no answer and ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return [answers.get(file, lost) for file in files]


def table(results):
    columns = ["passed", "refused rightly", "not offered", "failed"]
    counts = collections.defaultdict(collections.Counter)
    for case, (column, _) in results:
        counts[case.operator, "rules" if case.negative else case.type][column] += 1
    print(f"{'operator':<18}{'type':<22}" + "".join(f"{column:>17}" for column in columns))
    for (operator, kind), count in sorted(counts.items()):
        print(f"{operator:<18}{kind:<22}" + "".join(f"{count[column] or '.':>17}" for column in columns))
    return collections.Counter(column for _, (column, _) in results)


def main():
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    parser.add_argument("--short", action="store_const", const=1, dest="per_kind", help="one test of each kind")
    parser.add_argument("--per-kind", type=int, default=4, help="tests of each kind: operator, types, rounding (default 4)")
    parser.add_argument("--op", nargs="+", default=OPERATORS, help="these operators only")
    parser.add_argument("--directory", type=Path, help="run the tests under this folder instead of making any")
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--accelctl", nargs="+", required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    folder = arguments.build / "conformance" / str(arguments.per_kind)
    if arguments.directory:
        folder = arguments.build / "conformance" / "given"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(arguments.directory, folder, copy_function=shutil.copyfile)
    else:
        generate(folder, arguments.per_kind, arguments.op)
    cases = [Case(description.parent) for description in sorted(folder.rglob("desc.json"))]
    cases = [case for case in cases if case.operator in arguments.op or arguments.directory]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        judged = list(pool.map(Case.make_reference, cases))
        dropped = judged.count(False)
        cases = [case for case, good in zip(cases, judged) if good]
        answers = run_on_device(arguments.accelctl, cases)
        verdicts = list(pool.map(lambda pair: pair[0].judge(*pair[1]), zip(cases, answers)))
    results = list(zip(cases, verdicts))

    total = table(results)
    for case, (column, complaint) in results:
        if column == "failed":
            print(f"FAILED {case.folder.name}: {complaint}")
    print(f"{dropped} tests left out: the reference model itself calls them unpredictable, or judges them otherwise than their maker")
    good = total["passed"] + total["refused rightly"]
    print(f"conformance: {good} passed, {total['failed']} failed, {total['not offered']} skipped")
    sys.exit(1 if total["failed"] or not good else 0)


if __name__ == "__main__":
    main()
