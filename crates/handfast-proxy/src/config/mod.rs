//! A configuration's life: file → model → state → reload. Here: the first two.

pub mod model;
