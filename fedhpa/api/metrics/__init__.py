"""The sources of metrics: one module for each metric type, and the parts that they share.

`fedhpa.api.metric_types` is the table of the types.
"""
