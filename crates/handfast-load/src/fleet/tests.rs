//! Whole runs over both buses, with loads that follow a script.
