"""The validation of the CRDs in CEL: `rules` has the rules of each model."""
