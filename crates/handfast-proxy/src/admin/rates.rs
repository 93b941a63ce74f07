//! Part of the admin listener.
