"""The admission rules of metrics: one module for each metric type, and the parts that they share."""
