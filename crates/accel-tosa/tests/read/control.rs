//! COND_IF and WHILE_LOOP: their rules, and the scopes of their graphs.

use accel_tosa::writer::{Attribute, Writer};
use accel_tosa::{Block, DType, Graph, Op, Rule, read};

use crate::common::{accepted, broken, last, refused, tensor};

pub fn graphs(first: &str, second: &str) -> Attribute {
    Attribute::Graphs { first: first.into(), second: second.into() }
}

/// A region: its inputs, the operator that makes its output `out`, and the output's type and shape.
fn region(
    inputs: &[(&str, DType, &[i32])],
    operator: &str,
    operands: &[&str],
    out: (DType, &[i32]),
) -> Writer {
    let mut w = Writer::new();
    for (name, dtype, shape) in inputs {
        w.input(name, *dtype, shape);
    }
    w.op(operator, Attribute::None, operands, "out", out.0, out.1);
    w.output("out");
    w
}

/// `y = c ? a + b : a - b`; every block calls its tensors alike.
pub fn cond_if() -> Writer {
    let pair: &[(&str, DType, &[i32])] = &[("a", DType::Int32, &[2]), ("b", DType::Int32, &[2])];
    let mut w = Writer::new();
    w.input("c", DType::Bool, &[1, 1]);
    w.input("a", DType::Int32, &[2]);
    w.input("b", DType::Int32, &[2]);
    w.op("COND_IF", graphs("then", "else"), &["c", "a", "b"], "out", DType::Int32, &[2]);
    w.output("out");
    w.regions = vec![
        ("then".into(), region(pair, "ADD", &["a", "b"], (DType::Int32, &[2]))),
        ("else".into(), region(pair, "SUB", &["a", "b"], (DType::Int32, &[2]))),
    ];
    w
}

/// `while (limit > x) x = x + x`.
pub fn while_loop() -> Writer {
    let pair: &[(&str, DType, &[i32])] = &[("x", DType::Int32, &[]), ("limit", DType::Int32, &[])];
    let mut w = Writer::new();
    for (name, dtype, shape) in pair {
        w.input(name, *dtype, shape);
    }
    w.tensor("y", DType::Int32, &[]);
    w.tensor("same", DType::Int32, &[]);
    w.raw("WHILE_LOOP", graphs("test", "step"), &["x", "limit"], &["y", "same"]);
    w.output("y");
    let mut step = region(pair, "ADD", &["x", "x"], (DType::Int32, &[]));
    step.output("limit");
    w.regions = vec![
        ("test".into(), region(pair, "GREATER", &["limit", "x"], (DType::Bool, &[]))),
        ("step".into(), step),
    ];
    w
}

/// The regions of a graph are not those of the writer's `regions`, so nested ones are listed here.
fn then<'w>(w: &'w mut Writer, name: &str) -> &'w mut Writer {
    &mut w.regions.iter_mut().find(|(region, _)| region == name).expect("the graph has the region").1
}

fn operation(block: &Block) -> &'static str {
    block.nodes[0].op.name()
}

#[test]
fn conditions_are_read() {
    let graph = accepted(&cond_if());
    let Op::CondIf { then_graph, else_graph } = &graph.nodes[0].op else { panic!("{:?}", graph.nodes) };
    assert_eq!((operation(then_graph), operation(else_graph)), ("ADD", "SUB"));
    assert_eq!(graph.nodes[0].inputs, graph.inputs);
    // Each block has tensors of its own, whatever they are called.
    assert_eq!(then_graph.inputs.len(), 2);
    assert!(then_graph.inputs.iter().all(|id| !else_graph.inputs.contains(id) && !graph.inputs.contains(id)));
    assert_eq!(then_graph.outputs, then_graph.nodes[0].outputs);
    // Dead ones need no graphs that do anything.
    let mut w = cond_if();
    for name in ["then", "else"] {
        let block = then(&mut w, name);
        block.operators.clear();
        block.outputs[0] = "a".into();
    }
    accepted(&w);
}

#[test]
fn wrong_conditions_are_refused() {
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&cond_if, Rule::ErrorIf, part, change);
    error("its condition \"c\" is INT8 [1, 1] where one BOOL", &|w| {
        tensor(w, "c").dtype = DType::Int8.code()
    });
    error("is BOOL [1, 2] where one BOOL", &|w| tensor(w, "c").shape[1] = 2);
    error("it has no condition", &|w| last(w).inputs.clear());
    error("number of its operands is 1 and that of the inputs of its then graph is 2", &|w| {
        drop(last(w).inputs.pop())
    });
    error(
        "number 1 of its operands is INT32 [3] and that of the inputs of its then graph is INT32 [2]",
        &|w| tensor(w, "b").shape[0] = 3,
    );
    error("number 0 of its operands is INT16 [2] and that of the inputs of its then graph is INT32", &|w| {
        tensor(w, "a").dtype = DType::Int16.code();
    });
    error("that of the inputs of its else graph is 1", &|w| {
        let block = then(w, "else");
        block.inputs.pop();
        block.operators[0].inputs[1] = "a".into();
    });
    error("that of the inputs of its else graph is INT32 [1]", &|w| {
        tensor(then(w, "else"), "b").shape[0] = 1
    });
    error(
        "number 0 of its outputs is INT32 [3] and that of the outputs of its then graph is INT32 [2]",
        &|w| {
            tensor(w, "out").shape[0] = 3;
        },
    );
    error("number of its outputs is 1 and that of the outputs of its then graph is 0", &|w| {
        then(w, "then").outputs.clear()
    });
    error("that of the outputs of its else graph is BOOL [2]", &|w| {
        let block = then(w, "else");
        tensor(block, "out").dtype = DType::Bool.code();
        block.operators[0] = Writer::new().raw("EQUAL", Attribute::None, &["a", "b"], &["out"]).clone();
    });
    error("operand \"s\" is a shape", &|w| {
        w.shape("s", &[1]);
        w.operators.swap(0, 1);
        last(w).inputs[2] = "s".into();
    });
    let malformed =
        |part: &str, change: &dyn Fn(&mut Writer)| broken(&cond_if, Rule::Malformed, part, change);
    malformed("no region \"other\" for its graph", &|w| last(w).attribute = graphs("other", "else"));
    malformed("two regions with the name \"then\"", &|w| w.regions.push(("then".into(), Writer::new())));
    malformed("attribute is number 0", &|w| last(w).attribute_type = 0);
    malformed("\"out\" already has a value", &|w| last(w).outputs.push("out".into()));
    malformed("\"nobody\" is not among", &|w| last(w).inputs[1] = "nobody".into());
    broken(&cond_if, Rule::Level, "operands are 65, above the 64", |w| {
        last(w).inputs.extend(vec!["a".to_owned(); 63]);
    });
    broken(&cond_if, Rule::Level, "outputs are 65, above the 64", |w| {
        last(w).outputs.extend(vec!["out".to_owned(); 64]);
    });
}

#[test]
fn loops_are_read() {
    let graph = accepted(&while_loop());
    let Op::WhileLoop { cond_graph, body_graph } = &graph.nodes[0].op else { panic!("{:?}", graph.nodes) };
    assert_eq!((operation(cond_graph), operation(body_graph)), ("GREATER", "ADD"));
    assert_eq!(body_graph.outputs[1], body_graph.inputs[1]);
    assert_eq!(graph.nodes[0].outputs.len(), 2);
}

#[test]
fn wrong_loops_are_refused() {
    let error = |part: &str, change: &dyn Fn(&mut Writer)| broken(&while_loop, Rule::ErrorIf, part, change);
    error("the number of its operands is 1 and that of its outputs is 2", &|w| drop(last(w).inputs.pop()));
    error("number 0 of its operands is INT32 [] (rank 0) and that of its outputs is INT32 [3]", &|w| {
        tensor(w, "y").shape.push(3)
    });
    error("and that of the inputs of its condition graph is INT32 [3]", &|w| {
        let block = then(w, "test");
        for name in ["x", "limit", "out"] {
            tensor(block, name).shape.push(3);
        }
    });
    error("and that of the inputs of its body graph is INT32 [3]", &|w| {
        let block = then(w, "step");
        tensor(block, "x").shape.push(3);
        tensor(block, "out").shape.push(3);
    });
    error("and that of the outputs of its body graph is BOOL [] (rank 0)", &|w| {
        let block = then(w, "step");
        tensor(block, "out").dtype = DType::Bool.code();
        block.operators[0] = Writer::new().raw("EQUAL", Attribute::None, &["x", "x"], &["out"]).clone();
    });
    error("that of the outputs of its body graph is 1", &|w| drop(then(w, "step").outputs.pop()));
    error("condition graph has 2 outputs where 1", &|w| then(w, "test").output("x"));
    error("the output of its condition graph \"out\" is BOOL [3] where one BOOL", &|w| {
        let block = then(w, "test");
        block.constant("three", DType::Int32, &[3], &[0; 12]);
        block.operators.swap(0, 1);
        last(block).inputs = vec!["three".into(); 2];
        tensor(block, "out").shape.push(3);
    });
    error("the output of its condition graph \"x\" is INT32", &|w| then(w, "test").outputs[0] = "x".into());
}

/// Official tests break the rules with dimensions that a file may leave open elsewhere.
#[test]
fn unknown_dimensions_that_break_a_rule_break_it() {
    let part = "is INT32 [2] and that of the inputs of its then graph is INT32 [-1]";
    broken(&cond_if, Rule::ErrorIf, part, |w| tensor(then(w, "then"), "a").shape[0] = -1);
    let part = "that of the outputs of its else graph is INT32 [-1]";
    broken(&cond_if, Rule::ErrorIf, part, |w| tensor(then(w, "else"), "out").shape[0] = -1);
    let mut w = cond_if();
    for block in ["then", "else"] {
        tensor(then(&mut w, block), "a").shape[0] = -1;
    }
    tensor(&mut w, "a").shape[0] = -1;
    refused(&w, Rule::Unsupported, "unknown dimension (-1)");
    // Also where no operator looks at it.
    let mut w = Writer::new();
    w.input("x", DType::Int32, &[-1]);
    w.output("x");
    refused(&w, Rule::Unsupported, "unknown dimension (-1)");
}

/// A refusal inside of a graph tells the way there.
#[test]
fn refusals_tell_the_way() {
    let mut w = cond_if();
    then(&mut w, "else").operators[0].inputs.pop();
    let part = "in its graph \"else\", operator 0 (SUB): its number of operands is 1";
    let refusal = refused(&w, Rule::ErrorIf, part);
    assert_eq!(refusal.at, Some((0, "COND_IF")));
    let mut w = cond_if();
    // The values of outer blocks are out of sight.
    tensor(then(&mut w, "else"), "a").name = "other".into();
    then(&mut w, "else").inputs[0] = "other".into();
    refused(&w, Rule::Malformed, "its operand \"a\" is not among the block's tensors");
    let mut w = cond_if();
    then(&mut w, "then").operators[0].code = 69;
    refused(&w, Rule::Unsupported, "in its graph \"then\", operator 0 (CUSTOM)");
}

/// A graph of COND_IFs inside of one another: the main block has the first of `depth`.
fn nest(depth: usize) -> Writer {
    let level = |depth: usize, of: usize| {
        let mut w = Writer::new();
        w.input("c", DType::Bool, &[]);
        if depth == of {
            w.op("LOGICAL_NOT", Attribute::None, &["c"], "out", DType::Bool, &[]);
        } else {
            let inner = format!("level {}", depth + 1);
            w.op("COND_IF", graphs(&inner, "leaf"), &["c", "c"], "out", DType::Bool, &[]);
        }
        w.output("out");
        w
    };
    let mut w = level(0, depth);
    w.regions = (1..=depth).map(|inner| (format!("level {inner}"), level(inner, depth))).collect();
    w.regions.push(("leaf".into(), level(0, 0)));
    w
}

#[test]
fn nesting_is_limited() {
    let mut block = accepted(&nest(6)).nodes;
    for _ in 0..6 {
        let Op::CondIf { then_graph, .. } = block.remove(0).op else { panic!("{block:?}") };
        block = then_graph.nodes;
    }
    assert_eq!(block[0].op.name(), "LOGICAL_NOT");
    refused(&nest(7), Rule::Level, "nested 7 deep, above the 6 of MAX_NESTING");
    refused(&nest(1000), Rule::Level, "nested 7 deep");
}

#[test]
fn no_graph_holds_itself() {
    let mut w = nest(3);
    then(&mut w, "level 1").operators[0].attribute = graphs("level 1", "leaf");
    refused(&w, Rule::Malformed, "its graph \"level 1\" is one that it stands in");
    let mut w = nest(3);
    then(&mut w, "level 2").operators[0].attribute = graphs("leaf", "level 1");
    refused(&w, Rule::Malformed, "its graph \"level 1\" is one that it stands in");
    let mut w = nest(3);
    then(&mut w, "level 2").operators[0].attribute = graphs("main", "leaf");
    refused(&w, Rule::Malformed, "its graph \"main\" is one that it stands in");
}

/// The same region for several operators is a block of each.
#[test]
fn regions_may_be_used_again() {
    let mut w = cond_if();
    last(&mut w).attribute = graphs("then", "then");
    let graph = accepted(&w);
    let Op::CondIf { then_graph, else_graph } = &graph.nodes[0].op else { panic!("{:?}", graph.nodes) };
    assert_ne!(then_graph.inputs, else_graph.inputs);
}

/// Six levels of 40 operators that name the next level twice: 3 * 10^11 blocks, were all of them read.
#[test]
fn regions_used_again_and_again_are_refused() {
    let mut w = nest(6);
    for level in 0..6 {
        let block = if level == 0 { &mut w } else { then(&mut w, &format!("level {level}")) };
        let inner = format!("level {}", level + 1);
        block.operators.clear();
        for number in 0..40 {
            let name = if number == 0 { "out".to_owned() } else { format!("out {number}") };
            if number > 0 {
                block.tensor(&name, DType::Bool, &[]);
            }
            block.raw("COND_IF", graphs(&inner, &inner), &["c", "c"], &[&name]);
        }
    }
    let file = w.finish();
    assert!(file.len() < 100_000);
    refused(&w, Rule::Unsupported, "names its regions too many times over");
}

/// Adds to a variable in one of the graphs.
fn counting(lists_it: bool) -> Writer {
    let mut w = cond_if();
    w.variable("n", DType::Fp16, &[2], &[0; 4]);
    let block = then(&mut w, "then");
    if lists_it {
        block.tensor("n", DType::Fp16, &[2]).variable = true;
    }
    block.op("VARIABLE_READ", Attribute::None, &["n"], "old", DType::Fp16, &[2]);
    block.op("ADD", Attribute::None, &["old", "old"], "new", DType::Fp16, &[2]);
    block.raw("VARIABLE_WRITE", Attribute::None, &["new"], &["n"]);
    w
}

fn variables(graph: &Graph) -> usize {
    graph.variables.len()
}

#[test]
fn every_block_sees_the_variables() {
    for lists_it in [false, true] {
        let graph = accepted(&counting(lists_it));
        assert_eq!(variables(&graph), 1);
        assert!(graph.variables[0].initial.is_some());
    }
    let mut w = counting(true);
    tensor(then(&mut w, "then"), "n").shape[0] = 3;
    refused(&w, Rule::ErrorIf, "the variable \"n\" has another type or shape in another block");
    // A tensor of the same name is no variable.
    let mut w = counting(true);
    tensor(then(&mut w, "then"), "n").variable = false;
    refused(&w, Rule::ErrorIf, "\"n\" is not a variable");
    // One of an inner block alone is the program's too.
    let mut w = counting(true);
    w.tensors.retain(|tensor| tensor.name != "n");
    w.operators.pop();
    assert_eq!(variables(&accepted(&w)), 1);
    let mut w = counting(true);
    then(&mut w, "then").inputs[0] = "n".into();
    refused(&w, Rule::ErrorIf, "block input \"n\" is a variable");
}

#[test]
fn every_bit_flip_is_survived() {
    for mut file in [cond_if().finish(), while_loop().finish(), nest(6).finish()] {
        for byte in 0..file.len() {
            for bit in 0..8 {
                file[byte] ^= 1 << bit;
                if let Err(refusal) = read(&file[..]) {
                    assert!(!refusal.message.is_empty());
                }
                file[byte] ^= 1 << bit;
            }
        }
    }
}
