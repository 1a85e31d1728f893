"""What a directory layout promises: the stores, sidecars and download records that say which bytes should be there.

Blocking file access, bounded in every direction; what is read here was written by others and is believed in nothing
but its own words. :mod:`auditd.model_stores.stores` is the way in, :mod:`auditd.model_stores.registry` the table of what is known.
"""
