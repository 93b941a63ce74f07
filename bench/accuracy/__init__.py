"""Whether `handfast probe` judges right, on an emulated path."""
