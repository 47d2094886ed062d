"""A wake-word detector that keeps its past in variables, and what the reference model makes of a stream of inputs.

    wakeword.py fix IN.mlir OUT.mlir   takes out the casts from a type to itself that the converter leaves and the serializer refuses
    wakeword.py stream MODEL FOLDER    makes FOLDER's model.tosa, in0.npy and, for each output, ref0.npy and so on, a step each

The detector takes three frames of 40 spectral features at a time, and gives how sure it is that "Alexa" was said. That is 0 for most of
what is not speech, so the model in FOLDER also gives what it writes to its variables, and how sure it is before a table flattens that.
"""

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

STEPS = 20
FRAMES = (1, 3, 40)
TOOLS = Path(sysconfig.get_path("purelib")) / "bin"
CAST = re.compile(r"\s*(%\w+) = builtin\.unrealized_conversion_cast (%\w+) : (\S+) to (\S+)\s*")
# Lines with weights are long and name no other value.
LONG = 4000


def fix(source, target):
    names, lines = {}, []
    for line in Path(source).read_text().splitlines():
        cast = CAST.fullmatch(line)
        if cast and cast[3] == cast[4]:
            names[cast[1]] = names.get(cast[2], cast[2])
            continue
        if len(line) < LONG:
            line = re.sub(r"%\w+", lambda name: names.get(name[0], name[0]), line)
        lines.append(line)
    Path(target).write_text("\n".join(lines) + "\n")


def show_state(graph):
    """Makes outputs of what is written to variables, and of what the last table takes. Returns {variable: its next value}."""
    block = graph["regions"][0]["blocks"][0]
    writes = [operator for operator in block["operators"] if operator["attribute_type"] == "VariableWriteAttribute"]
    following = {operator["outputs"][0]: operator["inputs"][0] for operator in writes}
    tables = [operator["inputs"][0] for operator in block["operators"] if operator["op"] == "TABLE"]
    block["outputs"] += [*following.values(), tables[-1]]
    return following


def open_variables(graph):
    """Makes each variable an input, and no write; returns {variable: first value}."""
    block = graph["regions"][0]["blocks"][0]
    first = {}
    for tensor in block["tensors"]:
        if tensor.pop("variable", False):
            first[tensor["name"]] = np.array(tensor.pop("data"), np.uint8).view(np.int8).reshape(tensor["shape"])
            block["inputs"].append(tensor["name"])
    block["operators"] = [operator for operator in block["operators"] if operator["attribute_type"] != "VariableWriteAttribute"]
    for operator in block["operators"]:
        if operator["attribute_type"] == "VariableReadAttribute":
            operator["attribute_type"] = "IdentityAttribute"
    return first


def write(graph, folder, name):
    """FOLDER/NAME.tosa"""
    text = folder / f"{name}.json"
    text.write_text(json.dumps(graph))
    subprocess.run([TOOLS / "flatc", "-b", "-o", folder, TOOLS / "tosa.fbs", text], check=True)


def reference(folder, inputs, outputs):
    """One run of FOLDER/open.tosa in the reference model. A tensor's file is named as the tensor is."""
    for name, values in inputs.items():
        np.save(folder / f"{name}.npy", values)
    listed = lambda names, end="": ",".join(f"{name}{end}" for name in names)
    command = [TOOLS / "tosa_reference_model", "--tosa_file", "open.tosa", "--flatbuffer_dir", folder, "--output_dir", folder]
    command += ["--operator_fbs", TOOLS / "tosa.fbs", "--tosa_level", "EIGHTK"]
    command += ["--ifm_name", listed(inputs), "--ifm_file", listed(inputs, ".npy")]
    command += ["--ofm_name", listed(outputs), "--ofm_file", listed(outputs, ".npy")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {name: np.load(folder / f"{name}.npy") for name in outputs}


def stream(model, folder):
    """The reference model carries no variables from run to run, so for it they go in and out like other tensors."""
    model, folder = Path(model), Path(folder)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        subprocess.run([TOOLS / "flatc", "--json", "--strict-json", "-o", work, TOOLS / "tosa.fbs", "--", model], check=True)
        graph = json.loads((work / f"{model.stem}.json").read_text())
        following = show_state(graph)
        write(graph, work, "shown")
        state = open_variables(graph)
        write(graph, work, "open")
        block = graph["regions"][0]["blocks"][0]
        inputs = np.random.default_rng(1).integers(-128, 128, (STEPS, *FRAMES), dtype=np.int8)
        outputs = []
        for step in inputs:
            outputs.append(reference(work, {block["inputs"][0]: step} | state, block["outputs"]))
            state = {name: outputs[-1][following[name]] for name in state}
        (folder / "model.tosa").write_bytes((work / "shown.tosa").read_bytes())
    np.save(folder / "in0.npy", inputs)
    for number, name in enumerate(block["outputs"]):
        np.save(folder / f"ref{number}.npy", np.stack([output[name] for output in outputs]))


if __name__ == "__main__":
    {"fix": fix, "stream": stream}[sys.argv[1]](*sys.argv[2:])
