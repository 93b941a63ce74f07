"""The parts of the benchmark; bench/run.py puts them together."""
