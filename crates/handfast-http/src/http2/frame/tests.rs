//! Frames and their lengths.
