//! What the README says and what the code does.

use vhost_device_accel_workspace::Result;

#[test]
fn the_table_of_operators_is_what_the_lowering_accepts() -> Result<()> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))?;
    let (_, rest) =
        readme.split_once("<!-- operators:begin -->\n").ok_or("the README has no table of operators")?;
    let (table, _) = rest.split_once("<!-- operators:end -->").ok_or("the README's table has no end")?;
    assert!(
        table == accel_kernels::operators_markdown(),
        "run scripts/operators, which writes the table anew"
    );
    Ok(())
}
