"""safetensors: ``reader`` is the way in.

``json_walk`` reads the JSON into the columns of ``entries``, ``ranges`` judges what they say.
"""
