"""Runs tests on the device, through accelctl and a private daemon."""

import json
import subprocess
import tempfile


def name(accelctl):
    """What the device calls itself."""
    return json.loads(subprocess.run([accelctl, "info", "--json"], capture_output=True, check=True).stdout)["name"]


def run(accelctl, cases):
    """(case, accelctl's answer) as each ends. An accelctl that dies costs the test it was at and no other."""
    waiting = {str(case.folder / "desc.json"): case for case in cases}
    while waiting:
        with tempfile.NamedTemporaryFile("w+") as errors, tempfile.NamedTemporaryFile("w") as files:
            files.write("\n".join(waiting))
            files.flush()
            command = [accelctl, "sut", "--batch", files.name, "--json"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
                for line in process.stdout:
                    answer = json.loads(line)
                    yield waiting.pop(answer["desc"]), answer
            if waiting:
                errors.seek(0)
                why = f"accelctl gave no answer and ended with {process.returncode}: {errors.read().strip()[-300:]}"
                yield waiting.pop(next(iter(waiting))), {"code": None, "refused": False, "message": why, "times": None}
