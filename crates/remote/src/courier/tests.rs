//! Tests of the courier against small servers that do what a table says.
