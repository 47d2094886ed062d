"""Writes an initial RAM disk: cpio.py OUT.gz NAME=FILE..., each FILE (or all in that folder) under NAME.

The format is the kernel's "newc" (Documentation/driver-api/early-userspace/buffer-format.rst).
"""

import gzip
import os
import sys
from pathlib import Path


def entry(name, mode, data=b""):
    name = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def archive(files):
    """All entries for a {name: path} of regular files, folders first."""
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    for folder in sorted(folders):
        yield entry(folder, 0o040755)
    for name, path in sorted(files.items()):
        yield entry(name, 0o100755 if os.access(path, os.X_OK) else 0o100644, path.read_bytes())
    yield entry("TRAILER!!!", 0)


def main():
    out, *pairs = sys.argv[1:]
    files = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        path = Path(path)
        inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else None
        files.update({f"{name}/{file.relative_to(path)}": file for file in inside} if inside is not None else {name: path})
    with gzip.open(out, "wb", 1) as image:
        image.writelines(archive(files))


if __name__ == "__main__":
    main()
