"""Exact solutions of small variants, and exact best responses."""
