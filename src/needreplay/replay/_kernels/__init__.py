"""The compiled kernels of replay: one Cython module for each idea, built with the package.

A kernel is bound to the arrays that a buffer or a sampler owns and keeps nothing else, so that
saving, loading and checking need no compiled code. Kernels check the type and the length of arrays
that they are given, never what is in them: Python has checked that before.
"""
