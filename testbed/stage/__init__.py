"""Code that real and embedded planes share: a run's folder and programs, a plain API client, and the
product's three processes.
"""
