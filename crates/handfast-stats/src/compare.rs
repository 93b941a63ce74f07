//! Whether two runs differ by more than chance: bootstrap intervals over one-second samples.
