"""The state of a run: a pure view of its snapshot and of the records since.

It asks no controller and no scheduler, and loads nothing heavy: the status of a run is there in a blink.
"""
