"""The shipped unit under a real systemd."""
