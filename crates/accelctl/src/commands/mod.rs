//! One file a subcommand.

pub mod bind;
pub mod check;
pub mod info;
pub mod run;
pub mod sut;
pub mod verify;
