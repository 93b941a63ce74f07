"""Attacks on a front, each at a bounded rate, and what they cost another client."""
