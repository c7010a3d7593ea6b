"""Bridges into other libraries; each registers what we have there when it is imported."""
