"""What target and draft training share: progress and budgets, device, layers, loss, optimisers, checkpoint files."""
