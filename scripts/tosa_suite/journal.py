"""The results of a run as they come, so that one that was stopped goes on where it was."""

import hashlib
import json
import threading
from dataclasses import asdict, dataclass


@dataclass
class Result:
    """How one test ended."""

    test: str
    operator: str
    kind: str
    column: str
    why: str | None
    times: dict | None


def fingerprint(programs, cases):
    """Tells runs apart: results of other programs or other tests are of no use."""
    digest = hashlib.sha256()
    for program in programs:
        digest.update(program.read_bytes())
    for case in cases:
        digest.update(str(case.folder).encode())
    return digest.hexdigest()


class Journal:
    """A file with a line for each result, for a fingerprint in its first line."""

    def __init__(self, path, fingerprint):
        self.path = path
        self.results = {}
        self.lock = threading.Lock()
        head, *lines = path.read_text().splitlines() if path.exists() else [""]
        if head == fingerprint:
            self.results = {result.test: result for result in map(self.parse, lines) if result}
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{fingerprint}\n")
        self.file = path.open("a", buffering=1)

    @staticmethod
    def parse(line):
        try:
            return Result(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            # The line that was being written as the run was stopped.
            return None

    def add(self, result):
        with self.lock:
            self.results[result.test] = result
            self.file.write(json.dumps(asdict(result)) + "\n")

    def close(self):
        """The run is complete: the next one starts anew."""
        self.file.close()
        self.path.unlink()
