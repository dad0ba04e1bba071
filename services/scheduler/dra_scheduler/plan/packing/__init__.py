"""``plan pack``: what lies idle because it fits no shape, what nodes could still take, and moves that make room."""
