"""Streams and the tuple space: what tasks hand to each other while they run.

One broker process a run keeps order and delivery (`broker.py`); tasks and the controller talk to it through
`client.py`. ZeroMQ is imported nowhere else in diel, and here only where a stream is used. docs/streams.md
describes what travels, for programs in any language.
"""
