"""Faces that need an extra: one file for each library."""
