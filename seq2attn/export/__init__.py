"""A model as a folder of ONNX graphs, for programs without seq2attn."""
