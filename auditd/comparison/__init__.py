"""Two records compared: what differs between two models, as far as their records can say. Pure.

The way in is :func:`auditd.comparison.compare.difference`.
"""
