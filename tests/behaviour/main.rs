//! Behaviour tests.
fn _x(){}
