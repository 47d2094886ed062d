//! The tables of `spec/` and this crate say the same.
#![expect(clippy::unwrap_used, reason = "a broken table is a failed test")]

use accel_proto::*;

const COMMANDS: &str = include_str!("../../../spec/commands.md");
const EXTENSIONS: &str = include_str!("../../../spec/extensions.md");

/// Cells of the rows whose cell `key` is a hexadecimal code.
fn rows(text: &str, key: usize) -> Vec<Vec<&str>> {
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).skip(1).collect::<Vec<_>>())
        .filter(|cells| cells[key].starts_with("0x"))
        .collect()
}

fn number(cell: &str) -> u64 {
    match cell.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => cell.parse().unwrap(),
    }
}

#[test]
fn every_command_is_specified_as_it_is_coded() {
    let base = rows(COMMANDS, 0).into_iter().filter(|cells| cells.len() == 6);
    let extended = rows(EXTENSIONS, 1).into_iter().map(|cells| cells[1..].to_vec());
    let mut specified = Vec::new();
    for cells in base.chain(extended) {
        let Some(opcode) = Opcode::from_code(u16::try_from(number(cells[0])).unwrap()) else {
            assert_eq!(cells[1], "IMPORT_BUFFER", "the only code that is reserved");
            continue;
        };
        assert_eq!(cells[1], opcode.name());
        let writable = number(cells[4].split(' ').next().unwrap());
        assert_eq!(writable, opcode.response_capacity(0) as u64, "{opcode}");
        let payload = match opcode.request_size().head() {
            0 => "nothing".to_owned(),
            bytes => format!("({bytes})"),
        };
        assert!(cells[2].contains(&payload), "{opcode}: {}", cells[2]);
        specified.push(opcode);
    }
    assert_eq!(specified, Opcode::ALL);
}

#[test]
fn every_status_is_specified_as_it_is_coded() {
    for status in Status::ALL {
        let code = match status {
            Status::InternalError => "0xffff".to_owned(),
            status => status.code().to_string(),
        };
        assert!(COMMANDS.contains(&format!("\n| {code} | {status} | ")), "{status}");
    }
}
