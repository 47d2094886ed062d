"""Results as a table, as JSON and as JUnit's XML."""

import collections
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import asdict

from cases import COLUMNS, FAILED, PASSED, RIGHTLY, WRONGLY

GOOD = {PASSED, RIGHTLY}
SLOWEST = 10


class Progress:
    """A line on standard error now and then; on a terminal, one that renews itself."""

    def __init__(self, what, total):
        self.what, self.total, self.done = what, total, 0
        self.terminal = sys.stderr.isatty()
        self.next = self.start = time.monotonic()

    def step(self, note=lambda: ""):
        self.done += 1
        now = time.monotonic()
        if now < self.next and self.done < self.total:
            return
        self.next = now + (0.2 if self.terminal else 30)
        rate = self.done / max(now - self.start, 1e-3)
        last = self.done == self.total or not self.terminal
        line = f"{self.what}: {self.done} of {self.total}, {rate:.0f}/s{note()}"
        print(f"\r{line:<79}" if self.terminal else line, end="\n" if last else "", file=sys.stderr, flush=True)


def counts(results):
    """{(operator, kind): {column: tests}} and {column: tests}"""
    table = collections.defaultdict(collections.Counter)
    for result in results:
        table[result.operator, result.kind][result.column] += 1
    return dict(sorted(table.items())), collections.Counter(result.column for result in results)


def device_ms(result):
    times = result.times or {}
    # A device without a clock leaves the round trip.
    return times.get("device_ms") or times.get("execute_ms") or 0


def slowest(results):
    return sorted(results, key=device_ms, reverse=True)[:SLOWEST]


def as_text(results, device, seconds, left_out):
    table, total = counts(results)
    print(f"{'operator':<24}{'types':<42}" + "".join(f"{column:>17}" for column in COLUMNS))
    for (operator, kind), count in table.items():
        print(f"{operator:<24}{kind:<42}" + "".join(f"{count[column] or '.':>17}" for column in COLUMNS))
    print(f"{'all':<66}" + "".join(f"{total[column] or '.':>17}" for column in COLUMNS))
    for result in results:
        if result.column not in GOOD:
            print(f"{result.column.upper()} {result.test}: {result.why}")
    for test in left_out:
        print(f"LEFT OUT {test}: the reference model calls it unpredictable, or judges it otherwise than its maker")
    print(f"the slowest on {device}:")
    for result in slowest(results):
        print(f"{device_ms(result):>12.3f} ms  {result.test}")
    good = total[PASSED] + total[RIGHTLY]
    bad = f"{total[FAILED]} failed, {total[WRONGLY]} refused wrongly, {len(left_out)} left out"
    print(f"conformance: {good} of {len(results)} as the standard wants, {bad}, in {seconds:.0f} s")


def as_json(results, device, seconds, left_out):
    table, total = counts(results)
    return {
        "device": device,
        "seconds": round(seconds, 1),
        "total": {column: total[column] for column in COLUMNS},
        "left_out": left_out,
        "table": [{"operator": operator, "types": kind, **{column: count[column] for column in COLUMNS}} for (operator, kind), count in table.items()],
        "not_passed": [asdict(result) for result in results if result.column not in GOOD],
        "slowest": [{"test": result.test, "device_ms": device_ms(result)} for result in slowest(results)],
    }


def write_junit(path, results, seconds):
    """A suite for each operator; a case's time is its round trip, without loading."""
    root = xml.Element("testsuites", name="TOSA conformance", tests=str(len(results)), time=f"{seconds:.3f}")
    suites = collections.defaultdict(list)
    for result in results:
        suites[result.operator].append(result)
    for operator, own in sorted(suites.items()):
        bad = [result for result in own if result.column not in GOOD]
        suite = xml.SubElement(root, "testsuite", name=operator, tests=str(len(own)), failures=str(len(bad)))
        for result in own:
            took = (result.times or {}).get("execute_ms", 0) / 1e3
            case = xml.SubElement(suite, "testcase", classname=f"{operator}.{result.kind}", name=result.test, time=f"{took:.6f}")
            if result in bad:
                xml.SubElement(case, "failure", type=result.column).text = result.why
    xml.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
