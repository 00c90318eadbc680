"""What a weir job computes, written a second time in NumPy and float64, from the documents and not from the C code.

It shares no line with weir, so a slip in one of them shows as a difference.
"""
