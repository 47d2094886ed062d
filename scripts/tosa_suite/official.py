"""Makes the official suite, operator by operator: an operator's tests do not depend on what else is made."""

import os
import shutil
import subprocess

from tools import SCRIPTS


def make(folder, operator, choice):
    """Writes all tests of an operator below `folder`."""
    # Its own scripts start each other by name.
    environment = os.environ | {"PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    command = [SCRIPTS / "tosa_verif_conformance_generator", "--output-type", "binary", "-j", "1", "--tosa-version", choice.version]
    command += ["--op", operator, "--seed", str(choice.seed), "--profile", *choice.profiles, "--extension", *(choice.extensions or ["none"])]
    command += ["--build-directory", folder / "build", "--output-directory", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the generator failed for {operator}: {done.stderr[-500:]}")
    # It holds every test twice.
    shutil.rmtree(folder / "build", ignore_errors=True)
