"""A trained model for use elsewhere: ONNX graphs in a folder, or one HTML page that runs them."""
