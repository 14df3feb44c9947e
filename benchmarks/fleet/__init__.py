"""A fleet in a box: many lean members, a real hub, and the product's processes, on one machine."""
