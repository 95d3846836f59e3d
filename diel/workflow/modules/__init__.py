"""Modules: Python functions that stages name, found and read without importing them."""
