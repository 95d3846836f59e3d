"""A run as a page: panels of texts, tables, charts and pictures, and the file that holds them."""
