"""Exact solutions of small variants, and exact best responses."""

from agents.solve.responses import Exploitability, exploitability

__all__ = ["Exploitability", "exploitability"]
