"""Bridges into other libraries. Each is imported by its own name, and brings that library along."""
