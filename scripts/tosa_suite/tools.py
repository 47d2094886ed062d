"""Where the official tools are, and which operators they test."""

import functools
import json
import sysconfig
from pathlib import Path

from conformance.tosa_cts_versions import get_matching_schema_version
from conformance.tosa_verif_conformance_generator import in_version

PACKAGES = Path(sysconfig.get_path("purelib"))
# The native programs themselves: the console scripts of the same names start a Python for each call.
PROGRAMS = PACKAGES / "bin"
SCRIPTS = Path(sysconfig.get_path("scripts"))
VERSION = "1.0.2"


@functools.cache
def operators():
    """The operators, in lower case, that the official suite has tests of."""
    known = get_matching_schema_version(VERSION)
    config = json.loads((PACKAGES / "conformance" / known.filenames[0]).read_text())
    return sorted(name for name, entry in config.items() if name != "$comment" and in_version(known.version, entry))
