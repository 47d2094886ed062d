"""Turns the lines that a PyTorch script prints about matrix products, GEMV, casts and copies into anchors of the benches.

usage: python torch_script.py | python torch_anchors.py >anchors.json; cargo bench -- --anchor anchors.json

Lines: `mm EDGE TYPE ms MS TFLOPs|TOPs RATE`, `gemv ROWS EDGE TYPE ms MS GB/s weights RATE`, `cast FROM->TO GB/s RATE` (2^28 elements),
`copy 1GiB GB/s RATE`, `floor us US`. Others are passed over.
"""

import json
import re
import sys

TYPES = {"torch.float16": "f16", "torch.bfloat16": "bf16-f32", "torch.float32": "f32", "e4m3": "e4m3-f16", "int8": "i8-i32"}
LINES = [
    (r"mm (\d+) (\S+) ms \S+ T(?:FLOP|OP)s (\S+)", lambda m: (f"matmul/{TYPES[m[2]]}/{m[1]}x{m[1]}x{m[1]}", m[3], "T/s")),
    (r"gemv (\d+) (\d+) (\S+) ms \S+ GB/s weights (\S+)", lambda m: (f"skinny/{TYPES[m[3]]}/{m[1]}x{m[2]}x{m[2]}", m[4], "GB/s")),
    (r"cast (\S+)->(\S+) GB/s (\S+)", lambda m: (f"cast/{m[1]}-{m[2]}/2^28", m[3], "GB/s")),
    (r"copy 1GiB GB/s (\S+)", lambda m: ("identity/f32/2^28", m[1], "GB/s")),
    (r"floor us (\S+)", lambda m: ("floor/engine", m[1], "us")),
]

for line in sys.stdin:
    for pattern, anchor in LINES:
        if found := re.fullmatch(pattern, line.strip()):
            name, value, unit = anchor(found)
            print(json.dumps({"name": name, "value": float(value), "unit": unit}))
