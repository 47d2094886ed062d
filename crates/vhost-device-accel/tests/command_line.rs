//! The program as its user sees it.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

fn daemon(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vhost-device-accel")).args(arguments).output().unwrap()
}

#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = daemon(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a run that is refused as the user's mistake.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = daemon(arguments);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn help_names_every_option() {
    let help = prints(&["--help"]);
    for option in [
        "socket-path",
        "device",
        "memory-limit",
        "queues",
        "config",
        "list-devices",
        "json",
        "once",
        "print-vmm",
        "virtio-id",
        "pipeline-cache",
        "validation",
        "no-coopmat",
        "tuning",
    ] {
        assert!(help.contains(&format!("--{option}")), "{option}");
    }
    assert!(help.contains("Exit codes:"));
}

#[test]
fn prints_the_line_for_each_vmm() {
    let qemu = prints(&["--socket-path", "/run/a,b.sock", "--queues", "4", "--print-vmm", "qemu"]);
    assert!(qemu.contains("-chardev socket,id=accel0,path=/run/a,,b.sock "), "{qemu}");
    assert!(qemu.contains(
        "-device vhost-user-test-device-pci,chardev=accel0,virtio-id=31,num_vqs=4,vq_size=256,config_size=64"
    ));
    assert!(qemu.contains("memory-backend-memfd") && qemu.contains("share=on"));
    let cloud = prints(&["--socket-path", "/run/a", "--virtio-id", "40", "--print-vmm", "cloud-hypervisor"]);
    assert!(cloud.contains("--generic-vhost-user socket=/run/a,virtio_id=40,queue_sizes=[256,256]"));
    assert!(cloud.contains("shared=on"));
    let crosvm = prints(&["--socket-path", "/run/a", "--print-vmm", "crosvm"]);
    assert!(crosvm.contains("--vhost-user video-decoder,socket=/run/a,max-queue-size=256"));
    let two = prints(&["--socket-path", "/run/a", "--socket-path", "/run/b", "--print-vmm", "qemu"]);
    assert_eq!(two.matches("-device vhost").count(), 2);
}

#[test]
fn refuses_what_it_cannot_do_and_says_why() {
    assert!(refused(&[]).contains("no --socket-path"));
    assert!(refused(&["--print-vmm", "qemu"]).contains("no --socket-path"));
    assert!(refused(&["--socket-path", "a", "--socket-path", "a"]).contains("given twice"));
    assert!(refused(&["--socket-path", "a", "--queues", "17"]).contains("choose 1 to 16"));
    assert!(refused(&["--socket-path", "a", "--queues", "0"]).contains("choose 1 to 16"));
    assert!(refused(&["--socket-path", "a", "--memory-limit", "4X"]).contains("is not a size"));
    assert!(refused(&["--socket-path", "a", "--virtio-id", "14", "--print-vmm", "qemu"]).contains("QEMU"));
    assert!(
        refused(&["--socket-path", "a", "--virtio-id", "30", "--print-vmm", "crosvm"]).contains("crosvm")
    );
    assert!(refused(&["--json"]).contains("--list-devices"));
}

#[test]
fn reads_a_configuration_file_and_lets_the_command_line_win() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("accel.toml");
    let file = path.to_str().unwrap();
    std::fs::write(&path, "socket-path = \"/run/file\"\nqueues = 3\nvirtio-id = 40\nmemory-limit = \"2G\"\n")
        .unwrap();
    let qemu = prints(&["--config", file, "--virtio-id", "41", "--print-vmm", "qemu"]);
    assert!(qemu.contains("path=/run/file ") && qemu.contains("virtio-id=41,num_vqs=3"), "{qemu}");
    let qemu = prints(&["--config", file, "--socket-path", "/run/line", "--print-vmm", "qemu"]);
    assert!(qemu.contains("path=/run/line ") && !qemu.contains("/run/file"));

    std::fs::write(&path, "socket-paths = [\"/run/file\"]\n").unwrap();
    let unknown = refused(&["--config", file, "--print-vmm", "qemu"]);
    assert!(unknown.contains("unknown field `socket-paths`") && unknown.contains(file), "{unknown}");
    std::fs::write(&path, "memory-limit = \"lots\"\n").unwrap();
    assert!(refused(&["--config", file, "--print-vmm", "qemu"]).contains("memory-limit"));
    assert!(refused(&["--config", "/nowhere.toml", "--print-vmm", "qemu"]).contains("/nowhere.toml"));
}

#[test]
fn a_device_that_is_not_there_is_refused_with_what_there_is() {
    let output = daemon(&["--socket-path", "/nowhere/a.sock", "--device", "no such device"]);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no accelerator could be opened: "), "{message}");
}

/// Whether `--device cpu` has something to open.
fn has_device() -> bool {
    let list = daemon(&["--list-devices", "--json"]);
    let devices: Vec<serde_json::Value> = serde_json::from_slice(&list.stdout).unwrap_or_default();
    let found = devices.iter().any(|device| device["kind"] == "cpu" && device["unsuitable"].is_null());
    assert!(
        found || std::env::var_os("ACCEL_REQUIRE_DEVICE").is_none_or(|required| required != "1"),
        "ACCEL_REQUIRE_DEVICE=1, but there is no Vulkan device on the CPU"
    );
    if !found {
        println!("skipped: there is no Vulkan device on the CPU");
    }
    found
}

#[test]
fn lists_devices_as_table_and_as_json() {
    if !has_device() {
        return;
    }
    let table = prints(&["--list-devices"]);
    assert!(table.starts_with("NUMBER"), "{table}");
    let json: Vec<serde_json::Value> = serde_json::from_str(&prints(&["--list-devices", "--json"])).unwrap();
    assert_eq!(table.lines().count(), json.len() + 1);
    for device in json {
        assert!(table.contains(device["name"].as_str().unwrap()));
    }
}

#[test]
fn a_signal_ends_it_cleanly() {
    if !has_device() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (signal, connected) in [("-TERM", false), ("-INT", true)] {
        let sockets = ["a.sock", "b.sock"].map(|name| directory.path().join(name));
        let mut process = Command::new(env!("CARGO_BIN_EXE_vhost-device-accel"))
            .args(["--device", "cpu", "--pipeline-cache"])
            .arg(directory.path().join("cache"))
            .arg("--socket-path")
            .arg(&sockets[0])
            .arg("--socket-path")
            .arg(&sockets[1])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut wait_for = |what| assert!(log.any(|line| line.contains(what)), "never said: {what}");
        wait_for("listening");
        wait_for("listening");
        // Nothing lies there but what can be connected to, and the cache.
        let entries = std::fs::read_dir(&directory).unwrap().flatten();
        assert_eq!(entries.filter(|entry| !entry.path().is_dir()).count(), sockets.len());
        let front_end = connected.then(|| UnixStream::connect(&sockets[1]).unwrap());
        if connected {
            wait_for("front-end connected");
        }
        let killed = Command::new("kill").arg(signal).arg(process.id().to_string()).status().unwrap();
        assert!(killed.success());
        wait_for("ended");
        assert_eq!(process.wait().unwrap().code(), Some(0));
        assert!(sockets.iter().all(|socket| !socket.exists()));
        drop(front_end);
    }
}

#[test]
fn a_socket_path_too_long_to_connect_to_is_refused() {
    if !has_device() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s".repeat(108));
    let output = daemon(&["--device", "cpu", "--socket-path", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("could not be made"), "{said}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}
