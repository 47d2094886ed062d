"""Runs the cases of virtio-accel-vulkan's own bench with that program and with ours, in turns, and prints the ratios.

usage: python reference_bench.py THEIRS OURS [ROUNDS] [CASE...]

THEIRS is the executable that `cargo bench --no-run` names for `vulkan_fp8` in the crate's unpacked source, OURS the one it names for
`metal` here. Both time from the submission to its completion on the first CPU implementation of Vulkan. Of every case the least median
of all rounds counts, so that what else the machine does is left out as far as it can be.
"""

import os
import re
import subprocess
import sys

FP8 = {"fp8e4m3": "e4m3", "fp8e5m2": "e5m2"}
# The parts of the other bench's cases, by what its filter takes, and what the same cases are called here.
PARTS = ["× 16777216", "256×256×256", "512×512×512", "×4096×4096"]


def ours(case):
    """The name of a case of the other bench in ours; None where ours has none."""
    short = lambda name: FP8.get(name, name.replace("fp", "f"))
    if found := re.fullmatch(r"identity (\S+) × 4", case):
        return "floor/engine"
    if found := re.fullmatch(r"identity (\S+) × 16777216", case):
        # Bytes are bytes.
        return f"identity/{'i8' if found[1] in FP8 else short(found[1])}/2^24"
    if found := re.fullmatch(r"(\S+) → (\S+) × 16777216", case):
        return f"cast/{short(found[1])}-{short(found[2])}/2^24"
    if found := re.fullmatch(r"matmul (\S+) (\d+)×(\d+)×(\d+)", case):
        types = short(found[1]) + ("-f16" if found[1] in FP8 else "")
    elif found := re.fullmatch(r"cast fp8e4m3 → (fp16) \+ matmul fp16 (\d+)×(\d+)×(\d+)", case):
        types = "f16*e4m3"
    else:
        return None
    return f"{'skinny' if found[3] == '4096' else 'matmul'}/{types}/{found[2]}x{found[3]}x{found[4]}"


def microseconds(text):
    number, unit = text.split()
    return float(number) * (1e3 if unit == "ms" else 1)


def rows(command, environment):
    result = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in result.stdout.splitlines() if line.startswith("|")]


def main(theirs, our, rounds="3", *parts):
    best = {}
    for _ in range(int(rounds)):
        for part in parts or PARTS:
            found = {}
            environment = {"VIRTIO_ACCEL_VULKAN_BENCH_CASE": part, "VIRTIO_ACCEL_VULKAN_BENCH_DEVICE": "llvmpipe"}
            for row in rows([theirs], environment):
                if len(row) == 7 and ours(row[1]):
                    found[row[1]] = microseconds(row[3])
            names = ",".join(sorted({ours(case) for case in found}))
            own = {row[0]: float(row[2]) for row in rows([our, "--quick", "--device", "cpu", "--filter", names], {}) if len(row) >= 8 and row[2].replace(".", "").isdigit()}
            for case, time in found.items():
                if ours(case) in own:
                    before = best.get(case, (time, own[ours(case)]))
                    best[case] = (min(before[0], time), min(before[1], own[ours(case)]))
            print(f"{part}: {len(found)} cases", file=sys.stderr)
    print("| case of virtio-accel-vulkan | theirs us | ours | us | theirs / ours |\n|---|--:|---|--:|--:|")
    for case, (time, own) in best.items():
        print(f"| {case} | {time:,.0f} | {ours(case)} | {own:,.0f} | {time / own:.2f} |")


main(*sys.argv[1:])
