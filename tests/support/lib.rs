//! Shared support of the whole-system tests.
