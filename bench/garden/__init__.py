"""A garden of servers behind one front: whether all of them receive the same requests, and none that the front did not log."""
