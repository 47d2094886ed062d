//! The program as its user sees it.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::process::{Command, Output};

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
