"""HTTP caches under test: what they answer, and what a hit costs them."""
