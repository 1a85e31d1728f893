"""What a header says about the model in it: names without block numbers, the stack, and whether it agrees with itself.

Pure: declarations and an account in, frozen values out. Nothing here is an opinion about a file; findings are made
from these values one floor up.
"""
