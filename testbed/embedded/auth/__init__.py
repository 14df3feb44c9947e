"""Authentication, RBAC and the review APIs."""
