//! The blocks of a graph: the names of each, then operator by operator.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::flat::{Bytes, List};
use crate::operators::{self, OperatorInfo};
use crate::schema::{SHAPE_FIELD, TosaBasicBlock, TosaOperator, TosaRegion, TosaShape, TosaTensor};
use crate::site::{self, Inferred, Open, Result, ShapeValue, Site, UNKNOWN, Value, Values, shape_fits, show};
use crate::types::need;
use crate::{
    BLOCK, Constant, DType, Node, Op, Profile, Refusal, Rule, Tensor, TensorId, Variable, Version, level, ops,
};

/// IDENTITY's number in the schema.
const IDENTITY: u32 = 68;

/// What a name in the block stands for, and whether its producer has been seen.
pub(crate) struct Named {
    pub value: Value,
    defined: bool,
}

/// Bytes that the file stores with a tensor, for CONST: elements, and the scales of a block-scaled tensor.
#[derive(Clone, Default)]
struct Stored {
    data: Range<usize>,
    scales: Range<usize>,
}

/// A graph being read: the block that reading has come to, and what all blocks share.
pub(crate) struct Reader<'a> {
    pub(crate) block: TosaBasicBlock<'a>,
    /// Names of the block.
    pub(crate) names: HashMap<&'a str, Named>,
    /// Operators of the block.
    pub nodes: Vec<Node>,
    /// Names of the regions that the block stands in, the outermost first.
    pub(crate) open: Vec<&'a str>,
    /// The regions behind the first; `None` for a name that two of them have.
    pub(crate) regions: HashMap<&'a str, Option<TosaRegion<'a>>>,
    /// Regions read once already, and the size of those read again.
    pub(crate) known: HashSet<&'a str>,
    pub(crate) repeated: usize,
    /// Bytes stored with each tensor, by tensor.
    data: Vec<Stored>,
    pub values: Values<'a>,
    pub profile: Profile,
    pub variables: Vec<Variable>,
    /// Variables by name, which all blocks share.
    variable_names: HashMap<&'a str, usize>,
    /// Tensors with dimensions that the file leaves open.
    pub(crate) open_shapes: HashMap<TensorId, OpenShape>,
    /// Elements of constant shapes that the file leaves open: where they are in it, and what they are.
    pub(crate) elements: Vec<(usize, u32)>,
}

/// A shape with open dimensions.
pub(crate) struct OpenShape {
    /// With 0 for those.
    pub declared: Vec<u32>,
    /// Position in the file of the offset of the shape.
    pub field: usize,
}

impl<'a> Reader<'a> {
    /// A reader before `block`, of the region with this name.
    pub fn new(artifact: &'a [u8], version: Version, region: &'a str, block: TosaBasicBlock<'a>) -> Self {
        Self {
            block,
            names: HashMap::new(),
            nodes: Vec::new(),
            open: vec![region],
            regions: HashMap::new(),
            known: HashSet::new(),
            repeated: 0,
            data: Vec::new(),
            values: Values {
                artifact,
                version,
                tensors: Vec::new(),
                shapes: Vec::new(),
                checked: RefCell::default(),
            },
            profile: Profile::default(),
            variables: Vec::new(),
            variable_names: HashMap::new(),
            open_shapes: HashMap::new(),
            elements: Vec::new(),
        }
    }

    /// Reads the tensors and shapes of the block, and marks its inputs as defined.
    pub fn declare(&mut self) -> Result<()> {
        let block = self.block;
        for tensor in block.tensors().unwrap_or_default().iter() {
            let name = tensor.name().unwrap_or_default();
            self.tensor(name, tensor).map_err(|refusal| self.blame(name, refusal))?;
        }
        for shape in block.shapes().unwrap_or_default().iter() {
            let name = shape.name().unwrap_or_default();
            self.shape(name, shape).map_err(|refusal| self.blame(name, refusal))?;
        }
        for name in block.inputs().unwrap_or_default().iter() {
            self.input(name)?;
        }
        Ok(())
    }

    /// Reads every operator.
    pub fn operators(&mut self) -> Result<()> {
        for (position, operator) in self.block.operators().unwrap_or_default().iter().enumerate() {
            self.operator(position as u32, operator)?;
        }
        Ok(())
    }

    /// Adds the first operator that mentions `name` to a refusal about a tensor.
    fn blame(&self, name: &str, refusal: Refusal) -> Refusal {
        let mentions = |operator: &TosaOperator<'_>| {
            let lists = [operator.inputs(), operator.outputs()];
            lists.into_iter().flatten().any(|list| list.iter().any(|other| other == name))
        };
        let operators = self.block.operators().unwrap_or_default();
        let found = operators.iter().enumerate().find(|(_, operator)| mentions(operator));
        let at = found.and_then(|(position, operator)| {
            let code = operator.op().unwrap_or(0);
            let name = operators::by_code(code).map(|info| info.name);
            Some((position as u32, name.or(operators::refused(code).map(|(name, _)| name))?))
        });
        Refusal { at, ..refusal }
    }

    fn name(&mut self, name: &'a str, value: Value) -> Result<()> {
        let earlier = self.names.insert(name, Named { value, defined: false });
        match earlier {
            None => Ok(()),
            Some(_) => Err(Refusal::of_file(
                Rule::Malformed,
                format!("the name {name:?} is given to two tensors or shapes."),
            )),
        }
    }

    fn tensor(&mut self, name: &'a str, tensor: TosaTensor<'a>) -> Result<()> {
        let dtype = element(name, &tensor)?;
        let Version { major, minor, .. } = self.values.version;
        if dtype.is_of_blocks() && (major, minor) < (1, 1) {
            return Err(Refusal::of_file(
                Rule::ErrorIf,
                format!(
                    "the tensor {name:?} has the type {dtype}, which came with TOSA 1.1, and the file is of {major}.{minor}."
                ),
            ));
        }
        if dtype == DType::Shape {
            return Err(Refusal::of_file(
                Rule::ErrorIf,
                format!("the tensor {name:?} has the type SHAPE, which only shapes may have."),
            ));
        }
        if tensor.is_unranked().unwrap_or(false) {
            return Err(Refusal::of_file(
                Rule::Unsupported,
                format!(
                    "the tensor {name:?} has no rank; every shape must be known when the graph is loaded."
                ),
            ));
        }
        let outside = tensor.offset().max(tensor.scale_offset()) > Some(1);
        if outside || tensor.size().max(tensor.scale_size()) > Some(0) {
            return Err(Refusal::of_file(
                Rule::Unsupported,
                format!("the data of the tensor {name:?} lies outside the FlatBuffer; it must lie inside."),
            ));
        }
        let shape = tensor.shape().unwrap_or_default().iter().map(|dim| match dim {
            1.. => Ok(dim as u32),
            // Refused by who meets it, after the rules that an operator breaks besides.
            -1 => Ok(UNKNOWN),
            _ => Err(Refusal::of_file(
                Rule::ErrorIf,
                format!("the tensor {name:?} has a dimension of {dim}; each must be at least 1."),
            )),
        });
        let place = |bytes: Option<Bytes<'_>>| bytes.map_or(0..0, |b| b.start..b.start + b.bytes.len());
        let stored = Stored { data: place(tensor.data()), scales: place(tensor.scale_data()) };
        let is_variable = tensor.variable().unwrap_or(false);
        let field = tensor.0.position(SHAPE_FIELD).unwrap_or(0);
        let tensor =
            Tensor { name: name.to_owned(), dtype, shape: shape.collect::<Result<_>>()?, constant: None };
        shape_fits(&tensor).map_err(|(rule, message)| Refusal::of_file(rule, message))?;
        if let Some(&known) = self.variable_names.get(name).filter(|_| is_variable) {
            let id = self.variables[known].tensor;
            let outer = self.values.tensor(id);
            if (outer.dtype, &outer.shape) != (dtype, &tensor.shape) {
                return Err(Refusal::of_file(
                    Rule::ErrorIf,
                    format!("the variable {name:?} has another type or shape in another block."),
                ));
            }
            return self.name(name, Value::Tensor(id));
        }
        let id = TensorId(self.values.tensors.len() as u32);
        self.name(name, Value::Tensor(id))?;
        if is_variable {
            // It keeps its value from one submission to the next, whatever the shapes of those.
            site::known(&tensor).map_err(|message| Refusal::of_file(Rule::Unsupported, message))?;
            self.variable_names.insert(name, self.variables.len());
            self.variables.push(Variable { tensor: id, initial: None });
        }
        if tensor.shape.contains(&UNKNOWN) {
            self.open_shapes.insert(id, OpenShape { declared: tensor.shape.clone(), field });
        }
        self.values.tensors.push(tensor);
        self.data.push(stored);
        Ok(())
    }

    fn shape(&mut self, name: &'a str, shape: TosaShape<'a>) -> Result<()> {
        let data = shape.data().unwrap_or_default();
        let rank = shape.rank().unwrap_or(0) as usize;
        if rank > level::MAX_SHAPE_LEN {
            return Err(Refusal::of_file(
                Rule::Level,
                format!(
                    "the shape {name:?} has {rank} elements, above the {} of MAX_SHAPE_LEN in level 8K.",
                    level::MAX_SHAPE_LEN
                ),
            ));
        }
        self.name(name, Value::Shape(self.values.shapes.len()))?;
        self.values.shapes.push(ShapeValue { name, rank, data, dims: Vec::new() });
        Ok(())
    }

    fn input(&mut self, name: &str) -> Result<()> {
        match self.names.get_mut(name) {
            Some(Named { defined: true, .. }) => {
                Err(Refusal::of_file(Rule::Malformed, format!("the block input {name:?} is listed twice.")))
            }
            Some(Named { value: Value::Shape(_), .. }) => Err(Refusal::of_file(
                Rule::Unsupported,
                format!("the block input {name:?} is a shape; only tensors can be bound."),
            )),
            Some(_) if self.variable_names.contains_key(name) => Err(Refusal::of_file(
                Rule::ErrorIf,
                format!("the block input {name:?} is a variable, which VARIABLE_READ gives."),
            )),
            Some(named) => {
                named.defined = true;
                Ok(())
            }
            None => Err(Refusal::of_file(
                Rule::Malformed,
                format!("the block input {name:?} is not among its tensors."),
            )),
        }
    }

    fn operator(&mut self, position: u32, operator: TosaOperator<'a>) -> Result<()> {
        let info = identify(position, operator)?;
        if let "VARIABLE" | "VARIABLE_WRITE" | "VARIABLE_READ" = info.name {
            return self.variable(info, position, operator);
        }
        if let "COND_IF" | "WHILE_LOOP" = info.name {
            return self.control(info, position, operator);
        }
        if info.makes_shapes() {
            return self.shape_operator(info, position, operator);
        }
        let fail = |rule, message| Refusal { at: Some((position, info.name)), rule, message };
        let inputs = self.operands(info, operator.inputs().unwrap_or_default(), fail)?;
        let mut results = Vec::with_capacity(info.results);
        for result in self.made(info, operator, fail)? {
            if let Value::Tensor(id) = result {
                results.push(id);
            }
        }
        let site = Site::new(&self.values, info, position, operator, &inputs, &results)?;
        need(&mut self.profile, site.row(ops::accumulator(&site)?)?);
        if info.name == "CONST" {
            let output = results[0].0 as usize;
            site::known(site.output()).map_err(|message| site.refuse(Rule::ErrorIf, message))?;
            let constant = constant(&site, &self.data[output])?;
            self.values.tensors[output].constant = Some(constant);
            return Ok(());
        }
        let op = ops::build(&site)?;
        let (inputs, inferred) = (site.kept(), site.inferred());
        self.enter(inferred).map_err(|(rule, message)| fail(rule, message))?;
        self.nodes.push(Node { position, op, inputs, outputs: results });
        Ok(())
    }

    /// Enters the extents of dimensions that the file leaves open. The message names the tensor that is too large then.
    pub(crate) fn enter(&mut self, inferred: Vec<Inferred>) -> std::result::Result<(), (Rule, String)> {
        for &Inferred { of, dimension, extent } in &inferred {
            match of {
                Open::Tensor(id) => self.values.tensors[id.0 as usize].shape[dimension] = extent,
                Open::Shape(index) => {
                    let (data, end) = (self.values.shapes[index].data, 8 * (dimension + 1));
                    // A shape that an operator computes has none.
                    if end <= data.bytes.len() {
                        self.elements.push((data.start + end - 8, extent));
                    }
                }
            }
        }
        inferred.iter().try_for_each(|inferred| match inferred.of {
            Open::Tensor(id) => shape_fits(self.values.tensor(id)),
            Open::Shape(_) => Ok(()),
        })
    }

    /// The shape of a tensor as the file declares it.
    pub(crate) fn declared_shape(&self, id: TensorId) -> &[u32] {
        self.open_shapes.get(&id).map_or(&self.values.tensor(id).shape, |open| &open.declared)
    }

    /// Marks the results of an operator as defined, which are of the kind that it makes and as many.
    pub(crate) fn made(
        &mut self,
        info: &OperatorInfo,
        operator: TosaOperator<'a>,
        fail: impl Fn(Rule, String) -> Refusal,
    ) -> Result<Vec<Value>> {
        let outputs = operator.outputs().unwrap_or_default();
        if outputs.len() != info.results {
            let message =
                format!("its number of outputs is {} where {} is needed.", outputs.len(), info.results);
            return Err(fail(Rule::ErrorIf, message));
        }
        outputs.iter().map(|output| self.define(info, output, &fail)).collect()
    }

    /// VARIABLE, VARIABLE_WRITE and VARIABLE_READ. A variable is no value of the block, which has one producer: these
    /// operators alone name it, as often as they like.
    fn variable(
        &mut self,
        info: &'static OperatorInfo,
        position: u32,
        operator: TosaOperator<'a>,
    ) -> Result<()> {
        let fail = |rule, message| Refusal { at: Some((position, info.name)), rule, message };
        let (inputs, outputs) =
            (operator.inputs().unwrap_or_default(), operator.outputs().unwrap_or_default());
        if (inputs.len(), outputs.len()) != (info.inputs.len(), 1) {
            let message = format!(
                "it has {} operands and {} outputs where {} and 1 are needed.",
                inputs.len(),
                outputs.len(),
                info.inputs.len()
            );
            return Err(fail(Rule::ErrorIf, message));
        }
        let reads = info.name == "VARIABLE_READ";
        let named = if reads { inputs } else { outputs }.iter().next().unwrap_or_default();
        let found = self.variable_names.get(named).copied().filter(|&index| match self.names.get(named) {
            Some(Named { value: Value::Tensor(id), .. }) => *id == self.variables[index].tensor,
            Some(_) => false,
            // A variable of another block.
            None => true,
        });
        let Some(index) = found else {
            return Err(fail(Rule::ErrorIf, format!("{named:?} is not a variable.")));
        };
        let id = self.variables[index].tensor;
        let stored = self.data[id.0 as usize].clone();
        let (variable, own) = (index as u32, [id]);
        if info.name == "VARIABLE" {
            let site = Site::new(&self.values, info, position, operator, &[], &own)?;
            need(&mut self.profile, site.row(None)?);
            return Ok(());
        }
        let (op, inputs, results) = if reads {
            let output = outputs.iter().next().unwrap_or_default();
            let Value::Tensor(result) = self.define(info, output, fail)? else { return Ok(()) };
            (Op::VariableRead { variable }, vec![id], vec![result])
        } else {
            let input = self.operands(info, inputs, fail)?;
            let Some(Value::Tensor(input)) = input.first().copied() else {
                return Err(fail(
                    Rule::ErrorIf,
                    "its operand is a shape where a tensor is needed.".to_owned(),
                ));
            };
            (Op::VariableWrite { variable }, vec![input], vec![id])
        };
        let operands: Vec<Value> = inputs.iter().copied().map(Value::Tensor).collect();
        let site = Site::new(&self.values, info, position, operator, &operands, &results)?;
        need(&mut self.profile, site.row(None)?);
        site.output_like(0)?;
        let inferred = site.inferred();
        if self.variables[index].initial.is_none() && !stored.data.is_empty() {
            let site = Site::new(&self.values, info, position, operator, &[], &own)?;
            self.variables[index].initial = Some(constant(&site, &stored)?);
        }
        self.enter(inferred).map_err(|(rule, message)| fail(rule, message))?;
        let (inputs, outputs) = if reads { (Vec::new(), results) } else { (inputs, Vec::new()) };
        self.nodes.push(Node { position, op, inputs, outputs });
        Ok(())
    }

    /// Marks a result as defined: a shape for the operators that make shapes, a tensor for every other.
    pub(crate) fn define(
        &mut self,
        info: &OperatorInfo,
        output: &str,
        fail: impl Fn(Rule, String) -> Refusal,
    ) -> Result<Value> {
        let Some(named) = self.names.get_mut(output) else {
            return Err(fail(
                Rule::Malformed,
                format!("its output {output:?} is not among the block's tensors."),
            ));
        };
        if std::mem::replace(&mut named.defined, true) {
            return Err(fail(
                Rule::Malformed,
                format!("its output {output:?} already has a value; each name has one producer."),
            ));
        }
        if let Value::Tensor(id) = named.value
            && self.variables.iter().any(|variable| variable.tensor == id)
        {
            return Err(fail(
                Rule::ErrorIf,
                format!("its output {output:?} is a variable, which only VARIABLE_WRITE may change."),
            ));
        }
        match (named.value, info.makes_shapes()) {
            (value @ Value::Shape(_), true) | (value @ Value::Tensor(_), false) => Ok(value),
            (Value::Tensor(_), _) => Err(fail(
                Rule::ErrorIf,
                format!("its output {output:?} is a tensor where a shape is needed."),
            )),
            (Value::Shape(_), _) => Err(fail(
                Rule::ErrorIf,
                format!("its output {output:?} is a shape where a tensor is needed."),
            )),
        }
    }

    /// Resolves operand names; each must have been defined by an earlier operator or be a block input.
    pub(crate) fn operands(
        &self,
        info: &OperatorInfo,
        names: List<'a, &'a str>,
        fail: impl Fn(Rule, String) -> Refusal,
    ) -> Result<Vec<Value>> {
        let wanted = info.inputs.len();
        let count_fits = if info.variadic { names.len() >= 1 } else { names.len() == wanted };
        if !count_fits {
            let least = if info.variadic { "at least " } else { "" };
            let message =
                format!("its number of operands is {} where {least}{wanted} is needed.", names.len());
            return Err(fail(Rule::ErrorIf, message));
        }
        if info.variadic && names.len() > level::MAX_TENSOR_LIST_SIZE {
            return Err(fail(
                Rule::Level,
                format!(
                    "it joins {} tensors, above the {} of MAX_TENSOR_LIST_SIZE in level 8K.",
                    names.len(),
                    level::MAX_TENSOR_LIST_SIZE
                ),
            ));
        }
        names.iter().map(|name| self.operand(name, &fail)).collect()
    }

    /// Resolves the name of an operand.
    pub(crate) fn operand(&self, name: &str, fail: &impl Fn(Rule, String) -> Refusal) -> Result<Value> {
        match self.names.get(name) {
            Some(Named { value, defined: true }) => Ok(*value),
            Some(_) => Err(fail(
                Rule::Malformed,
                format!(
                    "its operand {name:?} has no value yet: no earlier operator makes it and it is no block input."
                ),
            )),
            None => {
                Err(fail(Rule::Malformed, format!("its operand {name:?} is not among the block's tensors.")))
            }
        }
    }

    /// The block's inputs and outputs as tensors.
    pub fn interface(&self) -> Result<(Vec<TensorId>, Vec<TensorId>)> {
        let tensor = |name: &str, what: &str| match self.names.get(name) {
            Some(Named { value: Value::Tensor(id), defined: true }) => site::known(self.values.tensor(*id))
                .map(|()| *id)
                .map_err(|message| Refusal::of_file(Rule::Unsupported, message)),
            Some(Named { value: Value::Shape(_), .. }) => Err(Refusal::of_file(
                Rule::Unsupported,
                format!("the block {what} {name:?} is a shape; only tensors can be bound."),
            )),
            Some(_) => Err(Refusal::of_file(
                Rule::Malformed,
                format!("no operator makes the block {what} {name:?}."),
            )),
            None => Err(Refusal::of_file(
                Rule::Malformed,
                format!("the block {what} {name:?} is not among its tensors."),
            )),
        };
        let list = |names: Option<List<'a, &'a str>>, what| -> Result<Vec<TensorId>> {
            names.unwrap_or_default().iter().map(|name| tensor(name, what)).collect()
        };
        let inputs = list(self.block.inputs(), "input")?;
        Ok((inputs, list(self.block.outputs(), "output")?))
    }

    /// The main block's inputs and outputs, which a guest binds.
    pub fn slots(&self) -> Result<(Vec<TensorId>, Vec<TensorId>)> {
        let (inputs, outputs) = self.interface()?;
        if outputs.is_empty() {
            return Err(Refusal::of_file(Rule::Malformed, "the block has no output.".to_owned()));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = outputs.iter().find(|id| !seen.insert(**id)) {
            let name = &self.values.tensor(*twice).name;
            return Err(Refusal::of_file(
                Rule::Unsupported,
                format!("the block output {name:?} is listed twice."),
            ));
        }
        Ok((inputs, outputs))
    }
}

/// The type of a tensor's elements.
fn element(name: &str, tensor: &TosaTensor<'_>) -> Result<DType> {
    let code = tensor.dtype().unwrap_or(0);
    let dtype = DType::from_code(code).ok_or_else(|| {
        Refusal::of_file(Rule::Malformed, format!("the tensor {name:?} has the unknown type number {code}."))
    })?;
    let scale = tensor.scale_type().unwrap_or(0);
    if scale == 0 {
        return Ok(dtype);
    }
    let refuse = |message: String| {
        Refusal::of_file(Rule::ErrorIf, format!("the block-scaled tensor {name:?} {message}"))
    };
    if scale != DType::Fp8UE8M0.code() {
        let wanted = DType::Fp8UE8M0;
        return Err(refuse(format!(
            "has scales of the type number {scale} where {} ({wanted}) is needed.",
            wanted.code()
        )));
    }
    let block = tensor.block_shape().unwrap_or(0);
    if block != BLOCK {
        return Err(refuse(format!("has the block shape {block}; TOSA 1.1 has {BLOCK} alone.")));
    }
    dtype.block_scaled().ok_or_else(|| refuse(format!("has values of type {dtype}, which are never scaled.")))
}

/// Finds the table entry of an operator, or says why it is refused.
fn identify(position: u32, operator: TosaOperator<'_>) -> Result<&'static OperatorInfo> {
    let tag = u32::from(operator.attribute_type().unwrap_or(0));
    // Some writers store variable reads and writes as IDENTITY with a variable's attribute.
    let code = match operator.op().unwrap_or(0) {
        IDENTITY if (72..=74).contains(&tag) => tag,
        code => code,
    };
    let unsupported = |(name, reason): (&'static str, &str)| Refusal {
        at: Some((position, name)),
        rule: Rule::Unsupported,
        message: format!("{reason}."),
    };
    let operands = operator.inputs().unwrap_or_default().len();
    let Some(info) = operators::by_operands(code, operands) else {
        return Err(operators::refused(code).map(unsupported).unwrap_or_else(|| {
            Refusal::of_file(Rule::Malformed, format!("operator {position} has the unknown code {code}."))
        }));
    };
    let optional = info.attribute == operators::AttributeKind::None;
    if tag != code && !(tag == 0 && optional) {
        let message = format!("its attribute is number {tag} where its own, {code}, is needed.");
        return Err(Refusal { at: Some((position, info.name)), rule: Rule::Malformed, message });
    }
    Ok(info)
}

/// The bytes of a constant fill its shape, and are values of its type. Converters pad constants, by up to a word
/// or by a whole channel dimension, so bytes beyond the shape are left alone, as the reference model does.
fn constant(site: &Site<'_>, stored: &Stored) -> Result<Constant> {
    let tensor = site.output();
    let part = |what: &str, stored: &Range<usize>, wanted: u64| {
        let found = stored.len();
        let wanted = usize::try_from(wanted).ok().filter(|&wanted| wanted <= found).ok_or_else(|| {
            site.refuse(
                Rule::Malformed,
                format!(
                    "the constant {:?} of shape {} and type {} has {found} bytes{what} where {wanted} are needed.",
                    tensor.name,
                    show(&tensor.shape),
                    tensor.dtype,
                ),
            )
        })?;
        Ok(stored.start..stored.start + wanted)
    };
    let range = part("", &stored.data, tensor.bytes())?;
    let scales = match tensor.dtype.values() {
        Some(_) => part(" of scales", &stored.scales, tensor.elements() / u64::from(BLOCK))?,
        None => 0..0,
    };
    let data = &site.values.artifact[range.clone()];
    if tensor.dtype == DType::Bool
        && let Some(byte) = data.iter().find(|&&byte| byte > 1)
    {
        return Err(site.refuse(
            Rule::Malformed,
            format!("the constant {:?} of type BOOL has a byte of {byte}; each must be 0 or 1.", tensor.name),
        ));
    }
    Ok(Constant { range, scales })
}
