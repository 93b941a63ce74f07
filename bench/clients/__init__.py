"""Real clients through a front: each check is a function with asserts on bytes and fields."""
