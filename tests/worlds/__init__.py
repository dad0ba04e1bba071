"""Tests of worlds from any source, and of questions about them."""
