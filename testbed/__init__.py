"""Control planes for the demo and the tests, embedded and real. The product never imports it."""
