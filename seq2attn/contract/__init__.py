"""The contract that every registered part satisfies: one implementation for `seq2attn check`, for
training and for the tests.
"""
