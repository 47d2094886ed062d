//! `accelctl info`.

use accel_proto::{Capabilities, DeviceClass, Extensions, MemoryDomain, QueryTopic};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::Result;

const EXTENSIONS: [(Extensions, &str); 6] = [
    (Extensions::EXECUTE, "EXECUTE"),
    (Extensions::WAIT_EVENT, "WAIT_EVENT"),
    (Extensions::LOAD_PROGRAM_FROM_BUFFER, "LOAD_PROGRAM_FROM_BUFFER"),
    (Extensions::QUERY, "QUERY"),
    (Extensions::COPY_BUFFER, "COPY_BUFFER"),
    (Extensions::IMPORT_BUFFER, "IMPORT_BUFFER"),
];

/// Prints what the device says of itself.
///
/// # Errors
/// The device failed.
pub fn info(connection: &Connection, json: bool) -> Result<()> {
    let report = report(connection)?;
    if json {
        println!("{report:#}");
        return Ok(());
    }
    println!("{}", report["name"].as_str().unwrap_or("(the device has no QUERY, so no name)"));
    for key in ["class", "uuid", "vendor_id", "device_id", "queues", "domains", "extensions", "limits"] {
        print(key, &report[key], 2);
    }
    if let Value::Object(operators) = &report["operators"] {
        println!("  operators: {} (all of them and their types with --json)", operators.len());
    } else if let Value::Array(operators) = &report["operators"] {
        println!("  operators: {} (all of them and their types with --json)", operators.len());
    }
    Ok(())
}

fn report(connection: &Connection) -> Result<Value> {
    let client = connection.client();
    let info = client.info();
    let extensions = client.extensions();
    let (mut name, mut operators, mut limits) = (Value::Null, Value::Null, json!({}));
    if extensions.contains(Extensions::QUERY) {
        name = client.device_name()?.into();
        operators = parse(&client.query(QueryTopic::Operators, 0)?);
        limits = parse(&client.query(QueryTopic::Limits, 0)?);
    }
    let prefix = &client.config().prefix;
    let standard = [
        ("max_chain_descriptors", prefix.max_chain_descriptors.get().into()),
        ("max_request_bytes", prefix.max_request_bytes.get().into()),
        ("max_response_bytes", prefix.max_response_bytes.get().into()),
        ("max_contexts", info.max_contexts.get().into()),
        ("max_buffers_per_context", info.max_buffers_per_context.get().into()),
        ("max_programs_per_context", info.max_programs_per_context.get().into()),
        ("max_queues_per_context", info.max_queues_per_context.get().into()),
        ("max_events_per_context", info.max_events_per_context.get().into()),
        ("max_bindings_per_submission", info.max_bindings_per_submission.get().into()),
        ("max_buffer_bytes", info.max_buffer_bytes.get()),
        ("max_artifact_bytes", info.max_artifact_bytes.get()),
    ];
    if let Value::Object(limits) = &mut limits {
        limits.extend(standard.map(|(key, value): (&str, u64)| (key.to_owned(), value.into())));
    }
    let capabilities = Capabilities::from_bits_retain(info.capabilities.get());
    let domains: Vec<_> = [MemoryDomain::Host, MemoryDomain::Device, MemoryDomain::Shared]
        .into_iter()
        .filter(|domain| capabilities.contains(domain.capability()))
        .map(|domain| format!("{domain:?}").to_lowercase())
        .collect();
    let extensions: Vec<_> =
        EXTENSIONS.iter().filter(|(bit, _)| extensions.contains(*bit)).map(|(_, name)| *name).collect();
    let class = match DeviceClass::from_code(info.class.get()) {
        Some(class) => format!("{class:?}").to_uppercase(),
        None => info.class.get().to_string(),
    };
    Ok(json!({
        "name": name,
        "class": class,
        "uuid": info.uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "vendor_id": format!("{:#06x}", info.vendor_id.get()),
        "device_id": format!("{:#06x}", info.device_id.get()),
        "queues": client.rings(),
        "domains": domains,
        "extensions": extensions,
        "cancellation": capabilities.contains(Capabilities::EVENT_CANCELLATION),
        "limits": limits,
        "operators": operators,
    }))
}

/// An answer that is no JSON is shown as it is.
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn print(key: &str, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => {
            println!("{:indent$}{key}:", "");
            for (key, value) in map {
                print(key, value, indent + 2);
            }
        }
        Value::Array(list) => {
            let words: Vec<_> =
                list.iter().map(|word| word.as_str().map_or(word.to_string(), Into::into)).collect();
            println!("{:indent$}{key}: {}", "", words.join(" "));
        }
        Value::String(text) => println!("{:indent$}{key}: {text}", ""),
        other => println!("{:indent$}{key}: {other}", ""),
    }
}
