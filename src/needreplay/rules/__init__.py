"""The mathematics: pure functions of numbers and arrays, one equation each.

Nothing here has state, reads a file or draws a random number. Compiled kernels compile these very
functions, so an equation of the paper is written once.
"""
