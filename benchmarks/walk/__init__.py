"""The length of the walk through the product for one unit of work."""
