"""The DFlash draft: model, training data, training, measurement, export, and the targets it can be trained for."""
