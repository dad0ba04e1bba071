"""Answers to recorded cases in the form of the real Kubernetes code, for developers and tests."""
