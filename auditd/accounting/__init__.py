"""Accounting: every byte of a file has an owner, and the residue says how many have none. Pure.

``cover`` lays extents over a file and says what they own, ``candidates`` sizes the tensors of a GGUF file
under every released layout and selects one, ``account`` is the way in for both formats.
"""
