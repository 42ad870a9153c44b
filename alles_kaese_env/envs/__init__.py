"""The environment APIs, one module for each library."""
