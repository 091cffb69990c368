"""The paper's experiments on model outputs, as numbers; figures and claims read what these return."""
