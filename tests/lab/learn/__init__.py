"""Worlds from anywhere, and questions about them."""
