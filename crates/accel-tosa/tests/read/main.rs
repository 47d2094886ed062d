//! Reading `.tosa` files: what is accepted, and that everything else is refused for the right reason.

mod bind;
mod blocks;
mod common;
mod control;
mod hostile;
mod rules;
mod shapes;
mod structure;
mod table;
