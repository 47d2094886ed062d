"""Where the official tools are, and which operators they test."""

import functools
import json
import sysconfig
from pathlib import Path

from conformance.tosa_cts_versions import get_matching_schema_version
from conformance.tosa_profiles import TosaProfiles
from conformance.tosa_verif_conformance_generator import in_version

PACKAGES = Path(sysconfig.get_path("purelib"))
# The native programs themselves: the console scripts of the same names start a Python for each call.
PROGRAMS = PACKAGES / "bin"
SCRIPTS = Path(sysconfig.get_path("scripts"))
VERSIONS = ["1.0.2", "1.1.0-draft"]

# The generator knows no versions of extensions: these came after 1.0.
ADDED = ("tosa-ext-mx", "tosa-ext-int64", "tosa-ext-shape")


def extensions(version):
    """The extensions of that version of TOSA."""
    return [name for name in TosaProfiles.extensions() if version != VERSIONS[0] or not name.startswith(ADDED)]


@functools.cache
def operators(version):
    """The operators, in lower case, that the official suite for that version of TOSA has tests of."""
    known = get_matching_schema_version(version)
    config = json.loads((PACKAGES / "conformance" / known.filenames[0]).read_text())
    return sorted(name for name, entry in config.items() if name != "$comment" and in_version(known.version, entry))
