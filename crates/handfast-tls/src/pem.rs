//! PEM sections.
