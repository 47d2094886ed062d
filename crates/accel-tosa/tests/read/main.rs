//! Reading `.tosa` files: what is accepted, and that everything else is refused for the right reason.

mod common;
mod control;
mod hostile;
mod rules;
mod structure;
mod table;
