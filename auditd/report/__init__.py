"""What people look at. Pure formatting: values in, lines out; nothing here reads, writes or asks the time.

``table`` shows many files, ``summary`` one, ``progress`` what is being read; ``columns`` fits text into a
terminal, ``figures`` words numbers, ``paint`` colours. Every text from outside leaves here printable.
"""
