//! The program as people and scripts call it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod copier;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use accel_tosa::DType;
use accel_tosa::writer::{Attribute, Writer};
use serde_json::{Value, json};

fn accelctl() -> Command {
    Command::new(env!("CARGO_BIN_EXE_accelctl"))
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn run(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ran {
        code: status.code().unwrap(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

/// A folder with models and arrays.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("identity.tosa", &identity(DType::Fp32, &[2, 3]));
        folder.write("broken.tosa", &mismatched_add());
        folder.write("junk.tosa", b"this is no model");
        folder.write("x.npy", &npy("<f4", "(2, 3)", &floats([1.0, -2.0, 3.5, 0.0, 5.0, 6.0])));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn floats(values: [f32; 6]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn identity(dtype: DType, shape: &[i32]) -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", dtype, shape);
    w.op("IDENTITY", Attribute::None, &["x"], "y", dtype, shape);
    w.output("y");
    w.finish()
}

/// ADD of shapes that do not broadcast: an ERROR_IF.
fn mismatched_add() -> Vec<u8> {
    let mut w = Writer::new();
    w.input("a", DType::Fp32, &[2, 3]);
    w.input("b", DType::Fp32, &[2, 4]);
    w.op("ADD", Attribute::None, &["a", "b"], "y", DType::Fp32, &[2, 3]);
    w.output("y");
    w.finish()
}

/// Sound, but nothing that the copier runs.
fn unsupported() -> Vec<u8> {
    let mut w = Writer::new();
    w.input("x", DType::Fp32, &[1, 2]);
    w.op("SIN", Attribute::None, &["x"], "y", DType::Fp32, &[1, 2]);
    w.output("y");
    w.finish()
}

#[test]
fn check_tells_what_a_model_is_without_a_device() {
    let folder = Folder::new();
    let ran = run(accelctl().arg("check").arg(folder.path("identity.tosa")).arg("--plan"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in ["input x FP32 [2, 3]", "output y FP32 [2, 3]", "1 operators: IDENTITY 1", "constants of"] {
        assert!(ran.out.contains(part), "{} lacks {part}", ran.out);
    }
    let ran = run(accelctl().arg("check").arg(folder.path("identity.tosa")).args(["--json", "--plan"]));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["runs"], &report["code"]), (&json!(true), &json!(0)));
    assert_eq!(report["operators"], json!({ "IDENTITY": 1 }));
    assert_eq!(report["inputs"], json!([{ "name": "x", "dtype": "FP32", "shape": [2, 3] }]));
    assert!(report["plan"]["dispatches"].is_array());
}

/// Doubles an input whose number of rows the file leaves open.
fn open_add() -> Vec<u8> {
    let mut w = Writer::new();
    w.input("a", DType::Fp32, &[-1, 3]);
    w.input("b", DType::Fp32, &[-1, 3]);
    w.op("ADD", Attribute::None, &["a", "b"], "y", DType::Fp32, &[-1, 3]);
    w.output("y");
    w.finish()
}

#[test]
fn check_takes_shapes_for_what_a_model_leaves_open() {
    let folder = Folder::new();
    let model = folder.write("open.tosa", &open_add());
    let check = |shapes: &[&str]| run(accelctl().arg("check").arg(&model).arg("--shape").args(shapes));
    let ran = check(&["5x3", "1x3"]);
    assert!(ran.code == 0 && ran.out.contains("output y FP32 [5, 3]"), "{}{}", ran.out, ran.err);
    for (shapes, code, part) in [
        (&["5x3", "4x3"][..], 2, "do not broadcast"),
        (&["5x3"], 2, "1 shapes are given for the graph's 2 inputs"),
        (&["5x3", "5x4"], 2, "cannot have [5, 4]"),
        (&["5x3", "x"], 3, "such as 1x37x80"),
        (&["5x3", "0x3"], 3, "such as 1x37x80"),
    ] {
        let ran = check(shapes);
        assert!(ran.code == code && ran.err.contains(part), "{} {}", ran.code, ran.err);
    }
    let bound = folder.path("bound.tosa");
    let ran = run(accelctl().arg("bind").arg(&model).args(["--shape", "5x3", "1x3", "--output"]).arg(&bound));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = run(accelctl().arg("check").arg(&bound));
    assert!(ran.code == 0 && ran.out.contains("output y FP32 [5, 3]"), "{}{}", ran.out, ran.err);
    let ran = run(accelctl().arg("bind").arg(&model).args(["--shape", "5x3", "--output"]).arg(&bound));
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = run(accelctl().arg("check").arg(&model));
    assert!(ran.code == 3 && ran.err.contains("--shape"), "{} {}", ran.code, ran.err);
}

#[test]
fn check_refuses_with_code_2_and_names_the_operator() {
    let folder = Folder::new();
    let ran = run(accelctl().arg("check").arg(folder.path("broken.tosa")));
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("operator 0 (ADD)") && ran.err.lines().count() == 1, "{}", ran.err);
    let ran = run(accelctl().args(["--json", "check"]).arg(folder.path("broken.tosa")));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["refusal"]["operator"]), (2, &json!("ADD")));
    assert_eq!(report["refusal"]["rule"], json!("ErrorIf"));
    assert_eq!(run(accelctl().arg("check").arg(folder.path("junk.tosa"))).code, 2);
}

#[test]
fn everything_else_ends_with_code_3() {
    let folder = Folder::new();
    let ran = run(accelctl().args(["check", "/nonexistent.tosa"]));
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("cannot read /nonexistent.tosa: No such file"), "{}", ran.err);
    // Not clap's own code 2.
    assert_eq!(run(accelctl().arg("--no-such-option")).code, 3);
    assert_eq!(run(accelctl().arg("--help")).code, 0);
    assert_eq!(run(accelctl().args(["--socket", "/s", "--spawn", "info"])).code, 3);
    let ran = run(accelctl().args(["--socket", "/nonexistent.sock", "--json", "info"]));
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("is vhost-device-accel running"), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["code"], json!(3));
    let model = folder.path("identity.tosa");
    assert_eq!(run(accelctl().arg("run").arg(model).args(["--repeat", "0"])).code, 3);
}

#[test]
fn a_private_daemon_that_dies_is_quoted() {
    let folder = Folder::new();
    let daemon = folder.write("daemon", b"#!/bin/sh\necho 'no usable device: buy one' >&2\nexit 3\n");
    let mut permissions = std::fs::metadata(&daemon).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&daemon, permissions).unwrap();
    let ran = run(accelctl().arg("--daemon").arg(&daemon).arg("info"));
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("ended (exit status: 3)") && ran.err.contains("buy one"), "{}", ran.err);
    let ran = run(accelctl().args(["--daemon", "/nonexistent/daemon", "info"]));
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("/nonexistent/daemon") && ran.err.contains("--daemon"), "{}", ran.err);
}

#[test]
fn info_shows_the_device() {
    let served = copier::serve();
    let ran = run(accelctl().arg("--socket").arg(&served.socket).arg("info"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("Null accelerator\n") && ran.out.contains("queues: 2"), "{}", ran.out);
    let ran = run(accelctl().arg("--socket").arg(&served.socket).args(["info", "--json"]));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["limits"]["max_request_bytes"], json!(1 << 20));
    assert!(report["extensions"].as_array().unwrap().contains(&json!("EXECUTE")));
}

#[test]
fn run_writes_outputs_and_says_what_is_in_them() {
    let (served, folder) = (copier::serve(), Folder::new());
    let mut command = accelctl();
    command.arg("--socket").arg(&served.socket).arg("run").arg(folder.path("identity.tosa"));
    command.arg("--input").arg(folder.path("x.npy")).arg("--output-dir").arg(folder.path("out"));
    let ran = run(&mut command);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("y FP32 [2, 3]: min -2, max 6, mean 2.250000; begins with 1 -2 3.500000"),
        "{}",
        ran.out
    );
    let written = std::fs::read(folder.path("out/y.npy")).unwrap();
    assert!(written.ends_with(&floats([1.0, -2.0, 3.5, 0.0, 5.0, 6.0])));
    let ran = run(command.args(["--repeat", "3", "--json"]));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["outputs"][0]["first"], json!([1.0, -2.0, 3.5, 0.0, 5.0, 6.0]));
    assert!(report["times"]["execute_min_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(report["outputs"][0]["file"], json!(folder.path("out/y.npy")));
}

/// Its dimensions are those of the arrays, as often as they change.
#[test]
fn a_model_that_leaves_its_shape_open_runs_with_any() {
    let (served, folder) = (copier::serve(), Folder::new());
    let model = folder.write("open.tosa", &identity(DType::Fp32, &[-1, 3]));
    let short = folder.write("short.npy", &npy("<f4", "(1, 3)", &[0; 12]));
    let narrow = folder.write("narrow.npy", &npy("<f4", "(3, 2)", &[0; 24]));
    let verify = |array: &Path| {
        let mut command = accelctl();
        command.arg("--socket").arg(&served.socket).arg("verify").arg(&model);
        run(command.arg("--input").arg(array).arg("--expect").arg(array))
    };
    for array in [folder.path("x.npy"), short] {
        let ran = verify(&array);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    let ran = verify(&narrow);
    assert!(ran.code == 2 && ran.err.contains("[-1, 3] in the file"), "{} {}", ran.code, ran.err);
    let ran = run(accelctl().arg("--socket").arg(&served.socket).arg("run").arg(&model));
    assert!(ran.code == 3 && ran.err.contains("the model takes x [?, 3]"), "{} {}", ran.code, ran.err);
    let desc = test_case(&folder, "open", &identity(DType::Fp32, &[-1, -1]));
    let ran = run(accelctl().arg("--socket").arg(&served.socket).arg("sut").arg(desc));
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_model_and_a_tensor_beyond_one_frame_run_too() {
    let (served, folder) = (copier::serve(), Folder::new());
    let mut w = Writer::new();
    w.input("x", DType::Int8, &[1, 3 << 20]);
    w.op("IDENTITY", Attribute::None, &["x"], "y", DType::Int8, &[1, 3 << 20]);
    w.constant("ballast", DType::Int8, &[2 << 20], &vec![7; 2 << 20]);
    w.output("y");
    let model = folder.write("big.tosa", &w.finish());
    let data: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
    let input = folder.write("big.npy", &npy("|i1", "(1, 3145728)", &data));
    let ran = run(accelctl()
        .arg("--socket")
        .arg(&served.socket)
        .arg("verify")
        .arg(model)
        .arg("--input")
        .arg(&input)
        .arg("--expect")
        .arg(&input));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn inputs_that_do_not_fit_are_explained() {
    let (served, folder) = (copier::serve(), Folder::new());
    let wide = folder.write("wide.npy", &npy("<f8", "(2, 3)", &[0; 48]));
    let tall = folder.write("tall.npy", &npy("<f4", "(3, 2)", &[0; 24]));
    let (x, z) = (folder.path("x.npy"), format!("z={}", folder.path("x.npy").display()));
    let cases: [(Vec<&Path>, &str); 5] = [
        (vec![&wide], "input x FP32 [2, 3] takes NumPy type f4, and the array is f8"),
        (vec![&tall], "another shape than the array's [3, 2]"),
        (vec![], "0 of 1 inputs were given; the model takes x FP32 [2, 3]"),
        (vec![&x, &x], "2 inputs were given and the model takes 1"),
        (vec![Path::new(&z)], "no free input z; its inputs are x FP32 [2, 3]"),
    ];
    for (inputs, part) in cases {
        let mut command = accelctl();
        command.arg("--socket").arg(&served.socket).arg("run").arg(folder.path("identity.tosa"));
        for input in inputs {
            command.arg("--input").arg(input);
        }
        let ran = run(&mut command);
        assert!(ran.code == 3 && ran.err.contains(part), "{} lacks {part}", ran.err);
    }
    let named = format!("x={}", x.display());
    let ran = run(accelctl()
        .arg("--socket")
        .arg(&served.socket)
        .arg("run")
        .arg(folder.path("identity.tosa"))
        .args(["--input", &named]));
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn verify_tells_equal_from_different() {
    let (served, folder) = (copier::serve(), Folder::new());
    let near = folder.write("near.npy", &npy("<f4", "(2, 3)", &floats([1.0, -2.0, 3.5, 0.0005, 5.0, 6.0])));
    let verify = |expect: &Path, extra: &[&str]| {
        run(accelctl()
            .arg("--socket")
            .arg(&served.socket)
            .arg("verify")
            .arg(folder.path("identity.tosa"))
            .arg("--input")
            .arg(folder.path("x.npy"))
            .arg("--expect")
            .arg(expect)
            .args(extra))
    };
    assert_eq!(verify(&folder.path("x.npy"), &[]).code, 0);
    assert_eq!(verify(&near, &[]).code, 0, "5e-4 of 6 is within 1e-4");
    let ran = verify(&near, &["--rtol", "1e-6"]);
    assert!(ran.code == 1 && ran.out.contains("element 3 is 0"), "{} {}", ran.code, ran.out);
    let report: Value = serde_json::from_str(&verify(&near, &["--rtol", "0", "--json"]).out).unwrap();
    assert_eq!(report["same"], json!(false));
}

fn test_case(folder: &Folder, name: &str, model: &[u8]) -> PathBuf {
    folder.write(&format!("{name}/test.tosa"), model);
    folder.write(&format!("{name}/in.npy"), &npy("<f4", "(2, 3)", &floats([1.0; 6])));
    let desc = json!({
        "tosa_file": "test.tosa", "ifm_name": ["x"], "ifm_file": ["in.npy"],
        "ofm_name": ["y"], "ofm_file": ["result.npy"], "expected_failure": false,
    });
    folder.write(&format!("{name}/desc.json"), desc.to_string().as_bytes())
}

#[test]
fn sut_ends_with_the_code_that_the_conformance_tools_want() {
    let (served, folder) = (copier::serve(), Folder::new());
    let good = test_case(&folder, "good", &identity(DType::Fp32, &[2, 3]));
    let bad = test_case(&folder, "bad", &mismatched_add());
    let lacking = test_case(&folder, "lacking", &unsupported());
    let sut = |desc: &Path| run(accelctl().arg("--socket").arg(&served.socket).arg("sut").arg(desc));
    assert_eq!(sut(&good).code, 0);
    assert!(std::fs::read(folder.path("good/result.npy")).unwrap().ends_with(&floats([1.0; 6])));
    let ran = sut(&bad);
    assert!(ran.code == 2 && ran.err.contains("ADD"), "{} {}", ran.code, ran.err);
    assert_eq!(sut(&lacking).code, 3);
    assert_eq!(sut(&folder.path("absent/desc.json")).code, 3);
    let elsewhere = folder.path("elsewhere");
    let mut command = accelctl();
    command.arg("--socket").arg(&served.socket).arg("sut").arg(&good).arg("--output-dir").arg(&elsewhere);
    assert_eq!(run(&mut command).code, 0);
    assert!(elsewhere.join("result.npy").exists());
}

#[test]
fn a_batch_prints_a_line_for_each_test() {
    let (served, folder) = (copier::serve(), Folder::new());
    let bad = test_case(&folder, "set/1", &mismatched_add());
    let good = test_case(&folder, "set/2/deep", &identity(DType::Fp32, &[2, 3]));
    let ran =
        run(accelctl().arg("--socket").arg(&served.socket).arg("sut").arg("--batch").arg(folder.path("set")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let codes: Vec<_> = ran.out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(codes, ["2", "0"]);

    // The list comes through standard input, and the answers are JSON.
    let mut child = accelctl()
        .arg("--socket")
        .arg(&served.socket)
        .args(["sut", "--batch", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let list = format!("{}\n\n{}\n/nonexistent/desc.json\n", good.display(), bad.display());
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let codes: Vec<_> = lines.iter().map(|line| line["code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [0, 2, 3]);
    assert_eq!(lines[0]["desc"], json!(good));
    assert!(lines[0]["times"]["execute_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(lines[1]["times"], Value::Null);
    let refused: Vec<_> = lines.iter().map(|line| line["refused"].as_bool().unwrap()).collect();
    assert_eq!(refused, [false, true, false]);
    assert!(lines[1]["message"].as_str().unwrap().contains("ADD"));
}

#[test]
fn more_tests_than_the_device_has_contexts_leave_nothing_behind() {
    let (served, folder) = (copier::serve(), Folder::new());
    let good = test_case(&folder, "good", &identity(DType::Fp32, &[2, 3]));
    let bad = test_case(&folder, "bad", &mismatched_add());
    let list = folder.write("list", format!("{}\n{}\n", good.display(), bad.display()).repeat(40).as_bytes());
    let ran = run(accelctl().arg("--socket").arg(&served.socket).arg("sut").arg("--batch").arg(list));
    let mut codes: Vec<_> = ran.out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [["0"; 40], ["2"; 40]].concat());
}
