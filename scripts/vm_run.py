"""Boots guests with the accelerator under QEMU, runs models in them, and compares with the host. Called by scripts/vm.

    vm_run.py --qemu Q --kernel K --initrd I --daemon D --accelctl A --models DIR [--guests N] [--soak RUNS] [--faults] [--msix] [--shell] [--device D]

Always with QEMU's own processor (accel=tcg), never KVM: the figures are those of an emulated guest.
"""

import argparse
import contextlib
import errno
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# The virtio id that guests see, and QEMU's device.
GENERIC = 31, {
    "driver": "vhost-user-test-device-pci", "id": "accel", "bus": "port0", "chardev": "accel0", "virtio-id": 31,
    "num_vqs": 2, "vq_size": 256, "config_size": 64,
}
# The generic device has no interrupt for each queue. That for disks has, and passes all else on just as well.
MSIX = 2, {
    "driver": "vhost-user-blk-pci", "id": "accel", "bus": "port0", "chardev": "accel0",
    "num-queues": 2, "queue-size": 256, "vectors": 3,
}
# Only what hangs takes longer, also on a machine that is busy with other work.
BOOT_S = 300
STEP_S = 300
# What a soak may change between its first look and its last: an allocator takes a MiB at a time, and 20 bytes kept of each of
# 100,000 submissions would be seen.
SOAK_KIB = 2000
# Where it looks on its way.
SOAK_LOOKS = 10


class Failure(Exception):
    """A sentence for the user."""


def say(text):
    print(text, flush=True)


class Daemon:
    """vhost-device-accel with one socket for each guest."""

    def __init__(self, program, folder, guests, device):
        self.sockets = [folder / f"accel{n}.sock" for n in range(guests)]
        self.log = folder / "daemon.log"
        self.command = [program, "--device", device, *(part for path in self.sockets for part in ("--socket-path", path))]
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        # After a kill the old sockets still lie there, so being there is not enough.
        while not all(listens(path) for path in self.sockets):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the daemon did not start; it said:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for path in self.sockets:
            path.unlink(missing_ok=True)

    def own_kib(self):
        """Its own memory: without the pages of guests, which count as resident once they are touched."""
        return status_kib(Path(f"/proc/{self.process.pid}/status").read_text(), "RssAnon")

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


def listens(path):
    """Whether somebody listens there; unlike a real connection this disturbs no one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except OSError as error:
            # The type is wrong only where somebody listens; elsewhere there is nobody to refuse it.
            return error.errno == errno.EPROTOTYPE
    return False


def status_kib(text, key):
    return int(re.search(rf"^{key}:\s+(\d+) kB", text, re.M)[1])


class Qmp:
    """QEMU's control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(STEP_S)
        self.socket.connect(str(path))
        self.stream = self.socket.makefile("rw")
        self.events = []
        json.loads(self.stream.readline())
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:
            answer = self.receive()
            if "error" in answer:
                raise Failure(f"QEMU refused {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def receive(self):
        with contextlib.suppress(ConnectionResetError):
            if line := self.stream.readline():
                return self.noted(json.loads(line))
        raise Failure("QEMU closed its control socket")

    def noted(self, answer):
        if "event" in answer:
            self.events.append(answer)
        return answer

    def wait(self, event, device):
        while not any(e["event"] == event and e["data"].get("device") == device for e in self.events):
            self.receive()
        self.events.clear()


class Guest:
    """A virtual machine whose init obeys its serial console."""

    def __init__(self, options, folder, number, accel, shell=False):
        self.number, self.accel, self.started = number, accel, time.monotonic()
        virtio_id, self.device = MSIX if options.msix else GENERIC
        control, console = folder / f"qmp{number}.sock", folder / f"console{number}.sock"
        append = f"console=ttyS0 quiet loglevel=1 panic=-1 vm.virtio_id={virtio_id}" + (" vm.shell" if shell else "")
        serial = "mon:stdio" if shell else f"unix:{console},server=on,wait=off"
        self.log = folder / f"qemu{number}.log"
        command = [
            options.qemu, "-M", "q35,accel=tcg,memory-backend=mem", "-cpu", "max", "-smp", "1", "-m", "512M",
            "-object", "memory-backend-memfd,id=mem,size=512M,share=on",
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", serial,
            "-qmp", f"unix:{control},server=on,wait=off",
            "-kernel", options.kernel, "-initrd", options.initrd, "-append", append,
            "-chardev", f"socket,id=accel0,path={accel}",
            "-device", "pcie-root-port,id=port0,chassis=1",
            "-device", ",".join([self.device["driver"], *(f"{key}={value}" for key, value in self.device.items() if key != "driver")]),
        ]
        if shell:
            self.process = subprocess.Popen(command)
            return
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.serial = self.connect(console)
        self.qmp = Qmp(control) if control.exists() else None
        self.pending = b""

    def connect(self, path):
        deadline = time.monotonic() + 30
        while True:
            end = socket.socket(socket.AF_UNIX)
            try:
                end.connect(str(path))
                return end
            except OSError:
                end.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Failure(f"QEMU did not start; it said:\n{self.log.read_text()}") from None
                time.sleep(0.02)

    def until(self, mark, seconds):
        """What the guest prints up to a mark, and the mark."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(mark, self.pending)):
            self.serial.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                more = self.serial.recv(65536)
            except TimeoutError:
                raise Failure(f"the guest was silent for {seconds} s; its last words:\n{self.pending[-3000:].decode(errors='replace')}") from None
            if not more:
                raise Failure(f"QEMU ended; it said:\n{self.log.read_text()}\nthe guest's last words:\n{self.pending[-3000:].decode(errors='replace')}")
            self.pending += more
        before, self.pending = self.pending[: found.start()], self.pending[found.end() :]
        return before.decode(errors="replace"), found

    def boot(self):
        """Waits until the guest obeys; returns the seconds since it was started."""
        self.until(rb"\r?\n@@ready\r?\n", BOOT_S)
        took = time.monotonic() - self.started
        self.target = self("device").split()
        return took

    def __call__(self, command, seconds=STEP_S):
        self.serial.sendall(command.encode() + b"\n")
        output, mark = self.until(rb"\r?\n@@(\d+)\r?\n", seconds)
        if mark[1] != b"0":
            raise Failure(f"in the guest, '{command}' failed with {int(mark[1])}:\n{output}")
        return output

    def accelctl(self, arguments, seconds=STEP_S):
        return self(f"accelctl {' '.join(self.target)} {arguments}", seconds)

    def json(self, arguments, seconds=STEP_S):
        text = self.accelctl(f"{arguments} --json", seconds)
        try:
            return json.loads(text)
        except ValueError:
            raise Failure(f"in the guest, 'accelctl {arguments}' printed no JSON:\n{text}") from None

    def reboot(self):
        self.started = time.monotonic()
        self.serial.sendall(b"reboot -f\n")
        return self.boot()

    def busy(self, model, runs=500):
        """Starts a program that never ends by itself, and waits until it ran some times: every run is a sleep."""
        self(f"accelctl {' '.join(self.target)} run /models/{model}/model.tosa --input /models/{model}/in0.npy --repeat 1000000000 >/tmp/busy 2>&1 & job=$!")
        slept = r"$(sed -n 's/^voluntary_ctxt_switches:\s*//p' /proc/$job/status)"
        self(f'until [ "{slept}" -gt {runs} ]; do usleep 100000; [ ! -s /tmp/busy ] || {{ cat /tmp/busy; false; break; }}; done')

    # unplug, a new daemon, plug: the documented sequence for replacing a daemon under a running guest.

    def unplug(self):
        self.qmp("device_del", id=self.device["id"])
        self.qmp.wait("DEVICE_DELETED", self.device["id"])
        self.qmp("chardev-remove", id="accel0")

    def plug(self):
        address = {"type": "unix", "data": {"path": str(self.accel)}}
        self.qmp("chardev-add", id="accel0", backend={"type": "socket", "data": {"addr": address, "server": False}})
        self.qmp("device_add", **self.device)
        self.target = self("device").split()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def digests(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.npy"))}


def on_host(options, folder):
    """What each model gives without a guest: {model: {file: digest}}."""
    expected = {}
    for model in sorted(options.models.iterdir()):
        out = folder / "host" / model.name
        command = [options.accelctl, "--daemon", options.daemon, "--device", options.device, "run", model / "model.tosa"]
        done = subprocess.run([*command, "--input", model / "in0.npy", "--output-dir", out], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"{model.name} does not run on the host: {done.stderr}")
        expected[model.name] = digests(out)
    return expected


def through_buffers(guest, digest):
    """A model whose file and input are long enough to go through buffers of the kernel module, and again without them."""
    limit = "/sys/module/virtio_accel/parameters/file_buffer_mib"
    run = f"RUST_LOG=debug accelctl {' '.join(guest.target)} run /models/large/model.tosa --input /models/large/in0.npy --output-dir /out"
    for mib, mark in ((0, "makes no buffer"), (64, "made a buffer")):
        said = guest(f"echo {mib} >{limit}; {run}; sha256sum /out/*.npy; rm -rf /out")
        if mark not in said or digest not in said:
            raise Failure(f"with {mib} MiB of buffers, the large model should have said '{mark}' and given {digest}; it said:\n{said}")
        rates = guest(f"guest_faults --transfer {guest.target[-1]}").strip()
        say(f"{'mapped buffers' if mib else 'copies'}: the large model equals the host's result bit for bit; {rates}")


def in_guest(guest, expected, when):
    """Runs every model in the guest; outputs must be the host's, bit for bit."""
    for model, files in expected.items():
        run = f"run /models/{model}/model.tosa --input /models/{model}/in0.npy --output-dir /out/{model}"
        times = guest.json(run)["times"]
        found = dict(reversed(line.split(maxsplit=1)) for line in guest(f"cd /out/{model} && sha256sum *.npy; cd /").splitlines())
        if found != files:
            raise Failure(f"{when}, {model} gives other outputs than on the host: {found} instead of {files}")
        say(f"{when}: {model} equals the host's result bit for bit ({len(files)} output; load {times['load_ms']:.0f} ms)")
    guest("rm -rf /out")


def repeated(guest, model, repeat, seconds=600):
    run = f"run /models/{model}/model.tosa --input /models/{model}/in0.npy --repeat {repeat}"
    return guest.json(run, seconds)["times"]


def soak(guest, daemon, model, runs):
    """Submissions of one program in the guest; neither side may keep anything of them."""
    interrupts = "awk '/virtio|uio/ { n += $2 } END { print n }' /proc/interrupts"

    def memory():
        text = guest("cat /proc/meminfo /proc/$job/status")
        # The program itself keeps the time of every run, for its median.
        available = status_kib(text, "MemAvailable") + status_kib(text, "RssAnon")
        return {"guest slab": status_kib(text, "Slab"), "guest available": available, "daemon RssAnon": daemon.own_kib()}

    guest.busy(model, 2000)
    start, first = time.monotonic(), int(guest(interrupts))
    looks = []
    for look in range(SOAK_LOOKS + 1):
        # One submission is in flight at a time, so each has an interrupt of its own.
        while (done := int(guest(interrupts)) - first) < runs * look // SOAK_LOOKS:
            if time.monotonic() - start > runs / 10:
                raise Failure(f"only {done} of {runs} submissions came back within {runs // 10} s")
            time.sleep(0.5)
        looks.append(memory())
        if not look:
            say("soak:  submissions  seconds " + " ".join(f"{name:>16}" for name in looks[0]) + "  (KiB)")
        say(f"soak: {done:>12} {time.monotonic() - start:>8.1f} " + " ".join(f"{now:>16}" for now in looks[-1].values()))
    guest("kill $job; wait $job; true")
    for name, was in looks[0].items():
        now = looks[-1][name]
        if abs(now - was) > SOAK_KIB:
            raise Failure(f"{name} changed by {now - was} KiB over {done} submissions")


def faults(guest, model):
    """Misuses the kernel module; whatever happens, it must go on."""
    node = guest.target[-1]
    say(guest(f"guest_faults {node} /models/{model}/model.tosa", 900).strip())
    guest(f"guest_faults --unplug {node} /models/large/model.tosa >/tmp/busy 2>&1 & job=$!")
    guest("until grep -q 'unplug now' /tmp/busy; do usleep 100000; [ -d /proc/$job ] || { cat /tmp/busy; false; break; }; done")
    guest.unplug()
    say(guest("wait $job; code=$?; cat /tmp/busy; [ $code = 0 ]").strip())
    guest.plug()
    complaints = guest("dmesg | grep -E 'BUG:|WARNING:|Oops|blocked for more than|refcount_t|KASAN' || true").strip()
    if complaints:
        raise Failure(f"the guest's kernel complains:\n{complaints}")


def together(guests, model, runs):
    """All guests at once, against each alone."""
    alone = [repeated(guest, model, runs)["execute_median_ms"] for guest in guests]
    results, barrier = {}, threading.Barrier(len(guests))

    def work(guest):
        barrier.wait()
        start = time.monotonic()
        results[guest.number] = repeated(guest, model, runs)["execute_median_ms"], time.monotonic() - start

    threads = [threading.Thread(target=work, args=[guest]) for guest in guests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) != len(guests):
        raise Failure("a guest failed while all ran at once")
    for guest in guests:
        median, took = results[guest.number]
        say(f"guest {guest.number}: EXECUTE median {alone[guest.number]:.3f} ms alone, {median:.3f} ms with the others ({runs} in {took:.1f} s)")
    slow, fast = max(took for _, took in results.values()), min(took for _, took in results.values())
    if slow > 2 * fast:
        raise Failure(f"one guest was starved: {slow:.1f} s beside {fast:.1f} s for the same work")


def scenario(options, folder, stack):
    expected = on_host(options, folder)
    large = expected.pop("large")
    small = next(iter(expected))
    daemon = Daemon(options.daemon, folder, options.guests, options.device)
    stack.callback(daemon.close)
    if options.shell:
        guest = Guest(options, folder, 0, daemon.sockets[0], shell=True)
        stack.callback(guest.close)
        guest.process.wait()
        return
    guests = []
    for number, path in enumerate(daemon.sockets):
        guests.append(Guest(options, folder, number, path))
        stack.callback(guests[-1].close)
    for guest in guests:
        boot = guest.boot()
        info = guest.json("info")
        say(f"guest {guest.number}: Linux {guest('uname -r').strip()} booted in {boot:.1f} s; driver {guest('driver').strip()} (accelctl {' '.join(guest.target)}); device {info['name']}")
        in_guest(guest, expected, f"guest {guest.number}")
        if options.msix:
            guest(f"guest_faults --run {guest.target[-1]} /models/{small}/model.tosa")
        lines = guest("grep -E 'virtio|uio' /proc/interrupts").splitlines()
        say("\n".join(f"guest {guest.number}: interrupt {' '.join(line.split())}" for line in lines))
        if options.msix and sum("MSI" in line and "command" in line and int(line.split()[1]) > 0 for line in lines) != 2:
            raise Failure("the two command queues do not interrupt by vectors of their own")
    if options.guests > 1:
        together(guests, small, 2000)
    guest = guests[0]
    times = repeated(guest, small, 200)
    say(f"EXECUTE of {small} in the guest: min {times['execute_min_ms']:.3f} ms, median {times['execute_median_ms']:.3f} ms (200 runs, emulated processor)")
    if guest.target[0] == "--char-device":
        through_buffers(guest, *large.values())
    if options.soak:
        soak(guest, daemon, small, options.soak)
    if options.faults:
        faults(guest, small)
        in_guest(guest, expected, "after misuse")
    if options.guests == 1:
        say(f"guest rebooted in {guest.reboot():.1f} s, on the same daemon")
        in_guest(guest, expected, "after the reboot")
        # Not while the device is idle and reset: QEMU 11.1 aborts when its daemon vanishes then.
        guest.busy(small)
        start = time.monotonic()
        daemon.kill()
        guest.unplug()
        told = guest("wait $job; code=$?; cat /tmp/busy; [ $code = 3 ]").strip()
        daemon.start()
        guest.plug()
        say(f"daemon killed with SIGKILL at work and replaced (device_del, chardev-remove, restart, chardev-add, device_add) in {time.monotonic() - start:.1f} s")
        say(f"the program at work was told: {told}")
        in_guest(guest, expected, "on the new daemon")
        guest.unplug()
        daemon.close()
        daemon.start()
        guest.plug()
        in_guest(guest, {small: expected[small]}, "after a planned restart of the daemon")
    for guest in guests:
        guest.serial.sendall(b"poweroff -f\n")
        guest.process.wait(30)


def main():
    parser = argparse.ArgumentParser()
    for name in ("qemu", "kernel", "initrd", "daemon", "accelctl", "models"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--guests", type=int, default=1)
    parser.add_argument("--soak", type=int)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--msix", action="store_true")
    parser.add_argument("--shell", action="store_true")
    options = parser.parse_args()
    start = time.monotonic()
    # A short path: a socket's may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="accel-vm.") as folder, contextlib.ExitStack() as stack:
        try:
            scenario(options, Path(folder), stack)
        except Failure as failure:
            print(f"error: {failure}", file=sys.stderr)
            for log in sorted(Path(folder).glob("*.log")):
                print(f"{log.stem} said last:\n{log.read_text()[-3000:]}", file=sys.stderr)
            return 1
    if not options.shell:
        say(f"the virtual machine works ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
