"""One test of the suite: what its folder says, what the reference model expects, and whether a run's results comply."""

import json
import re
import subprocess

from tools import PROGRAMS

REFERENCE_VALID, REFERENCE_REFUSED = 0, 2
RAN, BREAKS_RULE = 0, 2
# The columns of the table. What must be refused and is not has failed, and so has what could not be run for other reasons.
PASSED, RIGHTLY, WRONGLY, FAILED = COLUMNS = "passed", "refused rightly", "refused wrongly", "failed"

ONE_TYPE = "(?:bs32-f8ue8m0-)?(?:b|i4|i8|i16|i32|i48|i64|f16|f32|bf16|f8e4m3|f8e5m2|f6e2m3|f6e3m2|f4e2m1|mi8|f8ue8m0)"
TYPE = re.compile(f"(?:acc|out|wt)?({ONE_TYPE}(?:x{ONE_TYPE})*)")


class Case:
    """A folder with desc.json, test.tosa and inputs. The types are read from its name, which the generator makes of them."""

    def __init__(self, folder, operator):
        self.folder = folder
        self.operator = operator
        self.description = json.loads((folder / "desc.json").read_text())
        self.negative = self.description["expected_failure"]
        words = re.sub(r"ERRORIF_[A-Za-z0-9]+_", "", folder.name).split("_")
        types = [found[1] for found in map(TYPE.fullmatch, words) if found]
        self.kind = "rules" if self.negative else " ".join(dict.fromkeys(types)) or "-"

    def needs(self):
        """(profiles of which it needs one, extensions of which it needs all)"""
        requirements = self.description.get("test_requirements", {})
        return requirements.get("profiles_supported", []), requirements.get("extensions_required", [])

    def reference(self, index):
        return self.folder / f"fp64-{index}.npy"

    def bounds(self, index):
        return self.folder / f"bounds_fp64-{index}.npy"

    def make_reference(self):
        """What the reference model says in double precision, kept beside the test. False when it cannot judge the test."""
        verdict = self.folder / "reference.code"
        if not verdict.exists():
            names = [self.reference(index).name for index in range(len(self.description["ofm_name"]))]
            command = [PROGRAMS / "tosa_reference_model", "--test_desc", self.folder / "desc.json"]
            command += ["--operator_fbs", PROGRAMS / "tosa.fbs", "--tosa_level", "EIGHTK", "-p", "1"]
            command += ["--ofm_file", ",".join(names), "--output_dir", self.folder]
            # It is to find no debugger, which it would start to show where it refused the test.
            verdict.write_text(str(subprocess.run(command, capture_output=True, env={"PATH": "/nowhere"}).returncode))
        return int(verdict.read_text()) == (REFERENCE_REFUSED if self.negative else REFERENCE_VALID)

    def results(self):
        """(name of an output, [(our file, the reference model's)]), with a second pair of files for the scales of block-scaled data."""
        names = self.description["ofm_name"]
        pairs = [(self.folder / file, self.reference(index)) for index, file in enumerate(self.description["ofm_file"])]
        tensors = self.description.get("meta", {}).get("compliance", {}).get("tensors", {})
        scales = {name: tensors[name].get("scale_tensor_name") for name in names if name in tensors}
        for name, pair in zip(names, pairs):
            own = scales.get(name)
            if own in names:
                yield name, [pair, pairs[names.index(own)]]
            elif own:
                yield name, [pair, tuple(file.with_stem(f"{file.stem}_scale") for file in pair)]
            elif name not in scales.values():
                yield name, [pair]

    def verify(self):
        """The verifier's complaint about the first output that does not comply, or nothing."""
        for name, pairs in self.results():
            ours, references = (",".join(map(str, files)) for files in zip(*pairs))
            command = [PROGRAMS / "tosa_verify", "--test_desc", self.folder / "desc.json", "--ofm_name", name]
            command += ["--imp_result_file", ours, "--ref_result_file", references]
            bounds = self.bounds(self.description["ofm_name"].index(name))
            if bounds.exists():
                command += ["--bnd_result_file", bounds]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                return " ".join((done.stdout + done.stderr).split())[-300:] or f"tosa_verify ended with {done.returncode}"
        return None

    def judge(self, answer):
        """(column of the table, what is wrong). The results of a run that complies are deleted."""
        code, message = answer["code"], answer["message"]
        if self.negative:
            return (RIGHTLY, None) if code == BREAKS_RULE else (FAILED, f"must be refused, but ended with {code}: {message}")
        if answer["refused"]:
            return WRONGLY, message
        if code != RAN:
            return FAILED, f"ended with {code}: {message}"
        complaint = self.verify()
        if complaint:
            return FAILED, complaint
        for _, pairs in self.results():
            for ours, _ in pairs:
                ours.unlink()
        return PASSED, None
