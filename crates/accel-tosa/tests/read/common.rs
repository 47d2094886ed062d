//! Graphs to break, and the checks that they were refused for the right reason.

use accel_tosa::writer::{Attribute, RawOperator, RawTensor, Writer};
use accel_tosa::{DType, Graph, Refusal, Rule, read};

/// A graph around one operator: `inputs` become block inputs, `constants` CONSTs, `shapes` CONST_SHAPEs, in this
/// order; the operator follows, and makes `y`. Operands are named in `operands`.
pub struct One<'a> {
    pub name: &'a str,
    pub attribute: Attribute,
    pub inputs: &'a [(&'a str, DType, &'a [i32])],
    pub constants: &'a [(&'a str, DType, &'a [i32], &'a [u8])],
    pub shapes: &'a [(&'a str, &'a [i64])],
    pub operands: &'a [&'a str],
    pub output: (DType, &'a [i32]),
}

impl Default for One<'_> {
    fn default() -> Self {
        Self {
            name: "IDENTITY",
            attribute: Attribute::None,
            inputs: &[],
            constants: &[],
            shapes: &[],
            operands: &[],
            output: (DType::Fp32, &[]),
        }
    }
}

impl One<'_> {
    pub fn build(self) -> Writer {
        let mut w = Writer::new();
        for (name, dtype, shape) in self.inputs {
            w.input(name, *dtype, shape);
        }
        for (name, dtype, shape, data) in self.constants {
            w.constant(name, *dtype, shape, data);
        }
        for (name, elements) in self.shapes {
            w.shape(name, elements);
        }
        w.op(self.name, self.attribute, self.operands, "y", self.output.0, self.output.1);
        w.output("y");
        w
    }
}

/// The tensor with this name.
pub fn tensor<'w>(w: &'w mut Writer, name: &str) -> &'w mut RawTensor {
    w.tensors.iter_mut().find(|tensor| tensor.name == name).expect("the graph has the tensor")
}

/// The elements of the shape with this name.
pub fn shape<'w>(w: &'w mut Writer, name: &str) -> &'w mut Vec<i64> {
    &mut w.shapes.iter_mut().find(|shape| shape.0 == name).expect("the graph has the shape").1
}

/// The last operator.
pub fn last(w: &mut Writer) -> &mut RawOperator {
    w.operators.last_mut().expect("the graph has an operator")
}

#[track_caller]
pub fn accepted(w: &Writer) -> Graph {
    read(w.finish()).expect("the graph is right")
}

/// The graph is refused by this rule, with `part` in the message, which is a sentence.
#[track_caller]
pub fn refused(w: &Writer, rule: Rule, part: &str) -> Refusal {
    let refusal = read(w.finish()).expect_err("the graph breaks a rule");
    assert_eq!(refusal.rule, rule, "{refusal}");
    assert!(refusal.message.contains(part), "{refusal:?} does not say {part:?}");
    assert!(refusal.message.ends_with('.'), "{refusal:?} is no sentence");
    refusal
}

/// `change` turns the accepted graph into one that is refused, naming the last operator.
#[track_caller]
pub fn broken(graph: &dyn Fn() -> Writer, rule: Rule, part: &str, change: impl FnOnce(&mut Writer)) {
    accepted(&graph());
    let mut w = graph();
    change(&mut w);
    let refusal = refused(&w, rule, part);
    let (position, _) = refusal.at.expect("the refusal names an operator");
    assert!((position as usize) < w.operators.len());
}
