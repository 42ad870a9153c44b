"""Agents that follow a few rules of thumb, and their tuning."""
